"""The 35B shape with scripted weights and drafts: its work is real, its words are known."""
