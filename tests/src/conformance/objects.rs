//! Rules for buckets: writes, reads and listings.

use futures_util::{StreamExt as _, stream};
use redeliver_core::ports::{Listing, ListingPage, ReadableStore};

use super::bench::{BrokenRule, ensure, ensure_eq};
use super::{ConformanceReport, judge_rule};

/// The number of concurrent writes.
const CONCURRENT_WRITES: usize = 16;

macro_rules! rules {
    ($($rule:ident),+ $(,)?) => {
        /// The names of all rules for buckets.
        pub const OBJECT_RULES: &[&str] = &[$(stringify!($rule)),+];

        /// Runs all rules on an empty bucket, each in a separate folder. `departs` returns true for a rule that is
        /// known not to hold there.
        pub async fn run_all_object_rules(store: &impl ReadableStore, departs: impl Fn(&str) -> bool) -> ConformanceReport {
            let mut report = ConformanceReport::default();
            $(
                let verdict = $rule(store, concat!(stringify!($rule), "/")).await;
                report.outcomes.push((stringify!($rule), judge_rule(verdict, departs(stringify!($rule)))));
            )+
            report
        }
    };
}

rules![
    an_existing_object_is_not_overwritten,
    an_absent_object_is_neither_read_nor_listed,
    an_empty_object_is_kept,
    all_characters_in_a_key_are_kept,
    a_listing_has_pages_of_1000_keys_in_order,
    a_listing_by_folder_has_each_folder_once,
];

async fn read_object(store: &impl ReadableStore, key: &str) -> Result<Vec<u8>, BrokenRule> {
    store.read_object(key).await?.ok_or_else(|| BrokenRule::new("the object is absent"))
}

async fn create_objects(store: &impl ReadableStore, folder: &str, names: &[&str]) -> Result<(), BrokenRule> {
    for name in names {
        ensure!(store.create_object(&format!("{folder}{name}"), Vec::new()).await?, "{name} already exists");
    }
    Ok(())
}

fn keys_in_folder(folder: &str, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{folder}{name}")).collect()
}

async fn an_existing_object_is_not_overwritten(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), BrokenRule> {
    let key = format!("{folder}x");
    ensure_eq!(store.create_object(&key, b"first".to_vec()).await?, true, "the first write");
    ensure_eq!(store.create_object(&key, b"second".to_vec()).await?, false, "the second write");
    ensure_eq!(read_object(store, &key).await?, b"first".to_vec(), "the content");
    Ok(())
}

async fn an_absent_object_is_neither_read_nor_listed(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), BrokenRule> {
    ensure_eq!(store.read_object(&format!("{folder}x")).await?, None, "an absent object");
    let listing = Listing { prefix: folder, ..Listing::default() };
    ensure_eq!(store.list_keys(listing).await?, ListingPage::default(), "its folder");
    Ok(())
}

async fn an_empty_object_is_kept(store: &impl ReadableStore, folder: &str) -> Result<(), BrokenRule> {
    create_objects(store, folder, &["x"]).await?;
    ensure_eq!(read_object(store, &format!("{folder}x")).await?, Vec::<u8>::new(), "the content");
    Ok(())
}

/// The key contains every character that a prefix may contain.
async fn all_characters_in_a_key_are_kept(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), BrokenRule> {
    let prefix = format!("{folder}A9!_.*'()=-/");
    create_objects(store, &prefix, &["x"]).await?;
    ensure_eq!(read_object(store, &format!("{prefix}x")).await?, Vec::<u8>::new(), "the content");
    let page = store.list_keys(Listing { prefix: &prefix, ..Listing::default() }).await?;
    ensure_eq!(page.keys, keys_in_folder(&prefix, &["x"]), "the keys");
    Ok(())
}

async fn a_listing_has_pages_of_1000_keys_in_order(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), BrokenRule> {
    let keys: Vec<_> = (0..1001).map(|number| format!("{folder}{number:04}")).collect();
    let writes = keys.iter().rev().map(|key| store.create_object(key, Vec::new()));
    let written: Vec<_> = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).collect().await;
    ensure!(written.iter().all(|written| *written == Ok(true)), "not all were written");
    let first = store.list_keys(Listing { prefix: folder, ..Listing::default() }).await?;
    ensure_eq!(first.keys, keys[..1000], "the first page");
    ensure!(first.next.is_some(), "the first page is the last one");
    let listing = Listing { prefix: folder, page: first.next.as_deref(), ..Listing::default() };
    let expected = ListingPage { keys: keys[1000..].to_vec(), ..ListingPage::default() };
    ensure_eq!(store.list_keys(listing).await?, expected, "the second page");
    Ok(())
}

async fn a_listing_by_folder_has_each_folder_once(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), BrokenRule> {
    create_objects(store, folder, &["a/1", "a/2/3", "b/1", "c"]).await?;
    let page = store.list_keys(Listing { prefix: folder, by_folder: true, ..Listing::default() }).await?;
    let expected = ListingPage {
        keys: keys_in_folder(folder, &["c"]),
        folders: keys_in_folder(folder, &["a/", "b/"]),
        next: None,
    };
    ensure_eq!(page, expected, "the page");
    Ok(())
}
