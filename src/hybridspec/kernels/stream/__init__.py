"""Products whose weights stream from memory into registers, for GPUs that have the room."""
