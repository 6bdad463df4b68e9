"""What an engine keeps of earlier requests, for prompts that begin alike."""
