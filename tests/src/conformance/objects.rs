//! Rules of buckets: writes, reads and listings.

use futures_util::{StreamExt as _, stream};
use redeliver_core::ports::{Listing, Page, ReadableStore};

use super::bench::{Broken, ensure, ensure_eq};
use super::{Report, outcome};

/// Writes at the same time.
const CONCURRENT_WRITES: usize = 16;

macro_rules! rules {
    ($($rule:ident),+ $(,)?) => {
        /// The names of all rules of buckets.
        pub const OBJECT_RULES: &[&str] = &[$(stringify!($rule)),+];

        /// Runs all rules on an empty bucket, each in a folder of its own. `departs` says which rules are known not to
        /// hold there.
        pub async fn run_all_on_objects(store: &impl ReadableStore, departs: impl Fn(&str) -> bool) -> Report {
            let mut report = Report::default();
            $(
                let verdict = $rule(store, concat!(stringify!($rule), "/")).await;
                report.outcomes.push((stringify!($rule), outcome(verdict, departs(stringify!($rule)))));
            )+
            report
        }
    };
}

rules![
    an_object_is_created_once,
    an_absent_object_is_neither_read_nor_listed,
    an_empty_object_is_kept,
    all_characters_of_a_key_are_kept,
    a_listing_has_pages_of_1000_keys_in_order,
    a_listing_by_folder_has_each_folder_once,
];

async fn content(store: &impl ReadableStore, key: &str) -> Result<Vec<u8>, Broken> {
    store.read(key).await?.ok_or_else(|| Broken::new("the object is absent"))
}

async fn create(store: &impl ReadableStore, folder: &str, names: &[&str]) -> Result<(), Broken> {
    for name in names {
        ensure!(store.create(&format!("{folder}{name}"), Vec::new()).await?, "{name} is there already");
    }
    Ok(())
}

fn in_folder(folder: &str, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{folder}{name}")).collect()
}

async fn an_object_is_created_once(store: &impl ReadableStore, folder: &str) -> Result<(), Broken> {
    let key = format!("{folder}x");
    ensure_eq!(store.create(&key, b"first".to_vec()).await?, true, "the first write");
    ensure_eq!(store.create(&key, b"second".to_vec()).await?, false, "the second write");
    ensure_eq!(content(store, &key).await?, b"first".to_vec(), "the content");
    Ok(())
}

async fn an_absent_object_is_neither_read_nor_listed(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), Broken> {
    ensure_eq!(store.read(&format!("{folder}x")).await?, None, "an absent object");
    let listing = Listing { prefix: folder, ..Listing::default() };
    ensure_eq!(store.list(listing).await?, Page::default(), "its folder");
    Ok(())
}

async fn an_empty_object_is_kept(store: &impl ReadableStore, folder: &str) -> Result<(), Broken> {
    create(store, folder, &["x"]).await?;
    ensure_eq!(content(store, &format!("{folder}x")).await?, Vec::<u8>::new(), "the content");
    Ok(())
}

/// All that a prefix may have.
async fn all_characters_of_a_key_are_kept(store: &impl ReadableStore, folder: &str) -> Result<(), Broken> {
    let prefix = format!("{folder}A9!_.*'()=-/");
    create(store, &prefix, &["x"]).await?;
    ensure_eq!(content(store, &format!("{prefix}x")).await?, Vec::<u8>::new(), "the content");
    let page = store.list(Listing { prefix: &prefix, ..Listing::default() }).await?;
    ensure_eq!(page.keys, in_folder(&prefix, &["x"]), "the keys");
    Ok(())
}

async fn a_listing_has_pages_of_1000_keys_in_order(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), Broken> {
    let keys: Vec<_> = (0..1001).map(|number| format!("{folder}{number:04}")).collect();
    let writes = keys.iter().rev().map(|key| store.create(key, Vec::new()));
    let written: Vec<_> = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).collect().await;
    ensure!(written.iter().all(|written| *written == Ok(true)), "not all are written");
    let first = store.list(Listing { prefix: folder, ..Listing::default() }).await?;
    ensure_eq!(first.keys, keys[..1000], "the first page");
    ensure!(first.next.is_some(), "the first page is the last one");
    let listing = Listing { prefix: folder, page: first.next.as_deref(), ..Listing::default() };
    let expected = Page { keys: keys[1000..].to_vec(), ..Page::default() };
    ensure_eq!(store.list(listing).await?, expected, "the second page");
    Ok(())
}

async fn a_listing_by_folder_has_each_folder_once(
    store: &impl ReadableStore,
    folder: &str,
) -> Result<(), Broken> {
    create(store, folder, &["a/1", "a/2/3", "b/1", "c"]).await?;
    let page = store.list(Listing { prefix: folder, by_folder: true, ..Listing::default() }).await?;
    let expected =
        Page { keys: in_folder(folder, &["c"]), folders: in_folder(folder, &["a/", "b/"]), next: None };
    ensure_eq!(page, expected, "the page");
    Ok(())
}
