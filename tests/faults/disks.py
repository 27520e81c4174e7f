"""File systems of a process of its own: small, full or read-only. Linux only; nothing outside the process sees them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _PRIVATE = 1, 32, (1 << 18) | 16384


def mount_tmpfs(folder: Path, size: int) -> None:
    """Give the calling process, which must have a single thread, a file system of its own at a folder."""
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", _NEW_MOUNTS | _NEW_USER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        Path("/proc/self", name).write_text(text)
    _call("mount", b"none", b"/", None, _PRIVATE, None)
    folder.mkdir(parents=True, exist_ok=True)
    _call("mount", b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={size}".encode())


def resize(folder: Path, size: int) -> None:
    """Make the file system larger or smaller."""
    _call("mount", b"tmpfs", bytes(folder), None, _REMOUNT, f"size={size}".encode())


def make_read_only(folder: Path) -> None:
    """Let nobody, not even root, write to the file system."""
    _call("mount", b"tmpfs", bytes(folder), None, _REMOUNT | _READ_ONLY, None)


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
