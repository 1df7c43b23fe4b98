//! What a purge would delete.

use redeliver_dead_letters::purge::Purged;

use crate::audit::groups_for_people;
use crate::people::counted;

/// In groups, with an example of each: a number alone does not show that a filter picks too much.
pub(super) fn preview(purged: &Purged, colours: bool) -> String {
    let would = format!("{} would be deleted\n", counted(purged.picked, "dead letter"));
    if purged.groups.is_empty() { would } else { would + &groups_for_people(&purged.groups, colours) }
}
