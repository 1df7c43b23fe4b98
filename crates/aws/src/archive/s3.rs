//! A bucket: conditional writes, reads and listings ("Amazon S3 API Reference").

use aws_config::SdkConfig;
use aws_smithy_xml::decode::{Document, ScopedDecoder, XmlDecodeError, try_data};
use redeliver_core::ports::{EntryError, Fault, Listing, ObjectStore, Page, StoredObject};

use super::client::{Endpoint, Request, Response, SignedClient, encoded, encoded_path};
use crate::failed_request::by_status;

/// A bucket in S3 or a compatible service.
#[derive(Clone, Debug)]
pub struct S3Bucket {
    client: SignedClient,
    name: String,
}

/// Splits `s3://BUCKET/PREFIX` into the bucket and the prefix, which may be empty; `None` if it is no such address.
#[must_use]
pub fn bucket_of_uri(uri: &str) -> Option<(&str, &str)> {
    let (bucket, prefix) =
        uri.strip_prefix("s3://").map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    (!bucket.is_empty()).then_some((bucket, prefix))
}

impl S3Bucket {
    /// A bucket in the configuration's region.
    #[must_use]
    pub fn new(config: &SdkConfig, name: &str) -> Self {
        Self { client: SignedClient::new(config, "s3", None), name: name.to_owned() }
    }

    /// The URL of a key. A bucket with a dot has no certificate as a host, and an emulator has no such hosts.
    pub(super) fn url(&self, key: &str) -> String {
        let (name, key) = (&self.name, encoded_path(key));
        match &self.client.endpoint {
            Endpoint::Aws(host) if !name.contains('.') => format!("https://{name}.{host}/{key}"),
            endpoint => format!("{}{name}/{key}", endpoint.url()),
        }
    }

    async fn put(
        &self,
        key: &str,
        condition: (&'static str, &str),
        body: Vec<u8>,
    ) -> Result<bool, EntryError> {
        let request = Request { method: "PUT", url: self.url(key), headers: vec![condition], body };
        match self.client.send(request).await? {
            Response { status: 200, .. } => Ok(true),
            Response { status: 412, .. } => Ok(false),
            // The object to replace is gone; the bucket is not.
            answer if answer.status == 404 && condition.0 == "if-match" && code(&answer) == "NoSuchKey" => {
                Ok(false)
            }
            answer => Err(refused(&answer)),
        }
    }

    async fn get(&self, url: String) -> Result<Response, EntryError> {
        self.client.send(Request { method: "GET", url, ..Request::default() }).await
    }
}

impl ObjectStore for S3Bucket {
    async fn create(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.put(key, ("if-none-match", "*"), content).await
    }

    async fn replace(&self, key: &str, version: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.put(key, ("if-match", version), content).await
    }

    async fn read(&self, key: &str) -> Result<Option<StoredObject>, EntryError> {
        match self.get(self.url(key)).await? {
            // Without a version, a replacement would have no condition.
            Response { status: 200, etag, body } => {
                let version = etag.ok_or_else(unreadable)?;
                Ok(Some(StoredObject { content: body, version }))
            }
            answer if answer.status == 404 && code(&answer) == "NoSuchKey" => Ok(None),
            answer => Err(refused(&answer)),
        }
    }

    async fn list(&self, listing: Listing<'_>) -> Result<Page, EntryError> {
        let mut url = format!("{}?list-type=2&prefix={}", self.url(""), encoded(listing.prefix));
        let page = listing.page.map(|page| ("continuation-token", page));
        let by_folder = listing.by_folder.then_some(("delimiter", "/"));
        for (name, value) in [page, by_folder].into_iter().flatten() {
            url += &format!("&{name}={}", encoded(value));
        }
        let answer = self.get(url).await?;
        if answer.status != 200 {
            return Err(refused(&answer));
        }
        text(&answer).and_then(|text| page_of(text).ok()).ok_or_else(unreadable)
    }
}

fn text(answer: &Response) -> Option<&str> {
    std::str::from_utf8(&answer.body).ok()
}

fn unreadable() -> EntryError {
    EntryError::new(Fault::NoAnswer, "UnreadableAnswer")
}

/// S3's code in an error, or an empty text.
fn code(answer: &Response) -> String {
    let read = |text| {
        let mut document = Document::new(text);
        let mut root = document.root_element().ok()?;
        member(&mut root, "Code").ok()?
    };
    text(answer).and_then(read).unwrap_or_default()
}

fn refused(answer: &Response) -> EntryError {
    let code = Some(code(answer)).filter(|code| !code.is_empty());
    let code = code.unwrap_or_else(|| format!("HTTP {}", answer.status));
    match answer.status {
        // The bucket is in another region: nothing was done, and another try gets the same answer.
        300..=399 => EntryError::new(Fault::Sender, code),
        // `ConditionalRequestConflict`, a concurrent write of the same object: the next try finds it written.
        409 => EntryError::new(Fault::Throttled, code),
        status => by_status(status, Some(&code)),
    }
}

/// The text of the first child with this name.
fn member(parent: &mut ScopedDecoder<'_, '_>, name: &str) -> Result<Option<String>, XmlDecodeError> {
    while let Some(mut tag) = parent.next_tag() {
        if tag.start_el().local() == name {
            return try_data(&mut tag).map(|text| Some(text.into_owned()));
        }
    }
    Ok(None)
}

/// Parses an answer of `ListObjectsV2`.
fn page_of(text: &str) -> Result<Page, XmlDecodeError> {
    let mut document = Document::new(text);
    let mut root = document.root_element()?;
    if root.start_el().local() != "ListBucketResult" {
        return Err(XmlDecodeError::custom("not a listing"));
    }
    let mut page = Page::default();
    let mut is_truncated = false;
    while let Some(mut tag) = root.next_tag() {
        let name = tag.start_el().local().to_owned();
        match &*name {
            "Contents" => page.keys.extend(member(&mut tag, "Key")?),
            "CommonPrefixes" => page.folders.extend(member(&mut tag, "Prefix")?),
            "IsTruncated" => is_truncated = try_data(&mut tag)? == "true",
            "NextContinuationToken" => page.next = Some(try_data(&mut tag)?.into_owned()),
            _ => {}
        }
    }
    match page.next {
        // A listing without its end would pass for a whole one.
        None if is_truncated => Err(XmlDecodeError::custom("truncated without a token")),
        _ => Ok(page),
    }
}
