"""An OpenAI-compatible server around one engine. `create_app` is in `app.py`."""

from __future__ import annotations

from hybridspec.serving.app import create_app
from hybridspec.serving.settings import Settings

__all__ = ["Settings", "create_app"]
