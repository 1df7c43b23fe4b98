"""A function with SnapStart that writes its hooks and its calls to the journal."""

from scripted import handler, note  # noqa: F401
from snapshot_restore_py import register_after_restore, register_before_snapshot

register_before_snapshot(note, "before snapshot")
register_after_restore(note, "after restore")
