"""Tables of scripted runs in Markdown, from their documents; nothing here imports torch."""
