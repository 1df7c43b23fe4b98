//! An in-memory S3 with the operations that the archive needs: writes, reads and listings. Faults can be injected.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use redeliver_core::lock;
use redeliver_core::ports::{EntryError, Listing, ListingPage, ObjectStore, ReadableStore};

use crate::Injection;

/// Maximum number of keys per page ("ListObjectsV2", Amazon S3 API Reference).
const PAGE: usize = 1000;

/// A request to the bucket, with the key of an object or the prefix of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketRequest {
    Create(String),
    Read(String),
    List(String),
}

/// A function that returns the fault for each request, if any.
type BucketFaults = Box<dyn FnMut(&BucketRequest) -> Option<Injection> + Send>;

/// An S3 bucket in memory, by default without objects or faults. Clones share one bucket.
#[derive(Clone, Default)]
pub struct MemoryBucket {
    state: Arc<Mutex<BucketState>>,
}

#[derive(Default)]
struct BucketState {
    objects: BTreeMap<String, Vec<u8>>,
    requests: Vec<BucketRequest>,
    faults: Option<BucketFaults>,
}

impl MemoryBucket {
    /// Creates a bucket whose requests fail with the injection returned by `faults`; `None` lets a request succeed.
    #[must_use]
    pub fn with_faults(faults: impl FnMut(&BucketRequest) -> Option<Injection> + Send + 'static) -> Self {
        let state = BucketState { faults: Some(Box::new(faults)), ..BucketState::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns all objects, by key.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        lock(&self.state).objects.clone()
    }

    /// Returns all requests so far, including failed ones.
    #[must_use]
    pub fn requests(&self) -> Vec<BucketRequest> {
        lock(&self.state).requests.clone()
    }

    /// Carries out a request unless its fault prevents it. A fault can also replace the response afterwards.
    fn run_request<T>(
        &self,
        request: BucketRequest,
        carry_out: impl FnOnce(&mut BucketState) -> T,
    ) -> Result<T, EntryError> {
        let mut state = lock(&self.state);
        let fault = state.faults.as_mut().and_then(|faults| faults(&request));
        state.requests.push(request);
        match fault {
            None => Ok(carry_out(&mut state)),
            Some(fault) => {
                if fault.takes_effect() {
                    carry_out(&mut state);
                }
                Err(fault.to_error())
            }
        }
    }
}

impl BucketState {
    fn list_page(&self, listing: &Listing<'_>) -> ListingPage {
        let start = listing.page.map_or(Bound::Unbounded, Bound::Excluded);
        let prefix = listing.prefix;
        let keys = self.objects.range::<str, _>((start, Bound::Unbounded)).map(|(key, _)| key);
        let keys = keys.skip_while(|key| key.as_str() < prefix).take_while(|key| key.starts_with(prefix));
        let mut page = ListingPage::default();
        let mut last = None;
        for key in keys {
            let folder = key[prefix.len()..].find('/').filter(|_| listing.by_folder);
            let folder = folder.map(|end| key[..=prefix.len() + end].to_owned());
            if folder.is_some() && page.folders.last() == folder.as_ref() {
                last = Some(key);
                continue;
            }
            if page.keys.len() + page.folders.len() == PAGE {
                page.next = last.cloned();
                break;
            }
            match folder {
                Some(folder) => page.folders.push(folder),
                None => page.keys.push(key.clone()),
            }
            last = Some(key);
        }
        page
    }
}

impl ObjectStore for MemoryBucket {
    async fn create_object(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.run_request(BucketRequest::Create(key.to_owned()), |state| {
            let is_new = !state.objects.contains_key(key);
            if is_new {
                state.objects.insert(key.to_owned(), content);
            }
            is_new
        })
    }
}

impl ReadableStore for MemoryBucket {
    async fn read_object(&self, key: &str) -> Result<Option<Vec<u8>>, EntryError> {
        self.run_request(BucketRequest::Read(key.to_owned()), |state| state.objects.get(key).cloned())
    }

    async fn list_keys(&self, listing: Listing<'_>) -> Result<ListingPage, EntryError> {
        self.run_request(BucketRequest::List(listing.prefix.to_owned()), |state| state.list_page(&listing))
    }
}

impl std::fmt::Debug for MemoryBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBucket").finish_non_exhaustive()
    }
}
