"""An HTTP server that answers OpenAI's completion requests with one model, one at a time."""
