//! Lists and watch events as they come over the wire; objects stay bytes but for their header.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::header::{Item, null_as_default};
use crate::request::Refusal;

/// One event of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Applied(Item),
    Deleted(Item),
    Bookmark {
        revision: String,
        /// Whether it marks the end of what existed when the watch began.
        complete: bool,
    },
    Error(Refusal),
}

/// One page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) items: Vec<Item>,
    pub(super) next: Option<String>,
    pub(super) revision: String,
}

#[derive(Deserialize)]
struct RawFrame<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    #[serde(default)]
    r#continue: Option<String>,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default, deserialize_with = "null_as_default")]
    annotations: BTreeMap<String, String>,
}

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

// === impl Frame ===

impl Frame {
    pub(super) fn parse(line: &Bytes) -> serde_json::Result<Self> {
        let RawFrame { r#type, object } = serde_json::from_slice(line)?;
        let text = object.get();
        let item = || Item::new(line.slice_ref(text.as_bytes()));
        match &*r#type {
            "ADDED" | "MODIFIED" => Ok(Self::Applied(item()?)),
            "DELETED" => Ok(Self::Deleted(item()?)),
            "BOOKMARK" => {
                let Bookmark { metadata } = serde_json::from_str(text)?;
                let end = metadata.annotations.get(INITIAL_EVENTS_END);
                Ok(Self::Bookmark {
                    revision: metadata.resource_version,
                    complete: end.is_some_and(|end| end == "true"),
                })
            }
            "ERROR" => Ok(Self::Error(Refusal::parse(text)?)),
            other => Err(serde::de::Error::unknown_variant(
                other,
                &["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"],
            )),
        }
    }
}

// === impl Page ===

impl Page {
    pub(super) fn parse(bytes: &Bytes) -> serde_json::Result<Self> {
        let RawPage { metadata, items } = serde_json::from_slice(bytes)?;
        let item = |raw: &RawValue| Item::new(bytes.slice_ref(raw.get().as_bytes()));
        let items = items.unwrap_or_default();
        Ok(Self {
            items: items.into_iter().map(item).collect::<Result<_, _>>()?,
            next: metadata.r#continue.filter(|token| !token.is_empty()),
            revision: metadata.resource_version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn frames() {
        let check = |line: &str, expected: Option<Frame>| {
            assert_eq!(Frame::parse(&bytes(line)).ok(), expected, "{line}");
        };
        let object = r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#;
        let item = || Item::new(bytes(object)).expect("an object");
        check(
            &format!(r#"{{"type":"ADDED","object":{object}}}"#),
            Some(Frame::Applied(item())),
        );
        check(
            &format!(r#"{{"object": {object} ,"type":"MODIFIED"}}"#),
            Some(Frame::Applied(item())),
        );
        check(
            &format!(r#"{{"type":"DELETED","object":{object}}}"#),
            Some(Frame::Deleted(item())),
        );
        let bookmark = |annotations: &str, complete| {
            let line = format!(
                r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"7"{annotations}}}}}}}"#
            );
            let revision = "7".to_owned();
            check(&line, Some(Frame::Bookmark { revision, complete }));
        };
        bookmark("", false);
        bookmark(r#","annotations":null"#, false);
        bookmark(
            r#","annotations":{"k8s.io/initial-events-end":"true"}"#,
            true,
        );
        check(
            r#"{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}"#,
            Some(Frame::Error(Refusal {
                code: 410,
                reason: "Expired".to_owned(),
                message: "too old".to_owned(),
                ..Refusal::default()
            })),
        );
        check(r#"{"type":"NEWS","object":{}}"#, None);
        check(r#"{"type":"ADDED","object":{}}"#, None);
        check(r#"{"type":"ADDED"}"#, None);
        check("", None);
    }

    #[test]
    fn pages() {
        let check = |text: &str, expected: Option<(usize, Option<&str>, &str)>| {
            let page = Page::parse(&bytes(text)).ok();
            let shown = page.as_ref().map(|page| {
                (
                    page.items.len(),
                    page.next.as_deref(),
                    page.revision.as_str(),
                )
            });
            assert_eq!(shown, expected, "{text}");
        };
        check(
            r#"{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{"metadata":{"name":"a"}}]}"#,
            Some((1, Some("t"), "7")),
        );
        check(
            r#"{"metadata":{"resourceVersion":"7","continue":""},"items":null}"#,
            Some((0, None, "7")),
        );
        check(r#"{"items":[]}"#, None);
        check(r#"{"metadata":{"resourceVersion":"7"},"items":[{}]}"#, None);
    }
}
