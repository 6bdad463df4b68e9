"""Text in, text out: tokenizer, chat template, streaming detokenizer and the one stop rule."""
