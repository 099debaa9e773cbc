"""Small files of each kind of content."""

from __future__ import annotations

import base64

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(20)
WEBP = b"RIFF\x1a\0\0\0WEBPVP8L" + bytes(14)
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(28)
MP3 = b"\xff\xfb\x90\0" + bytes(413)
TAGGED_MP3 = b"ID3\x04" + bytes(20)
FLAC = b"fLaC" + bytes(40)
OGG = b"OggS" + bytes(30)
PDF = b"%PDF-1.7\n1 0 obj << /Type /Page >> endobj 2 0 obj << /Type/Page >> endobj << /Type /Pages >>\n%%EOF"
HTML = b"\n<!DOCTYPE html><p>no picture</p>"
ZIP = b"PK\x03\x04" + bytes(26)
