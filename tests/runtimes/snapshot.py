"""A function with SnapStart: its hooks and its calls are noted, in their order."""

from scripted import handler, note  # noqa: F401
from snapshot_restore_py import register_after_restore, register_before_snapshot

register_before_snapshot(note, "before snapshot")
register_after_restore(note, "after restore")
