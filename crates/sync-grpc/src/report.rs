//! What a zone says of what it sends. It is shown to people and kept for as long as the zone is
//! known, so it is cut to a size here, whatever the zone says.

use deltaplane_sync::{Counts, ObjectName, ProtocolError, Reasons, Uploaded};

use crate::codec::{cut, parse};
use crate::proto::deltaplane::sync::v1 as wire;

/// More kinds are not listed.
const MAX_KINDS: usize = 256;
/// So many objects are listed in a report, all kinds together; the rest are counted.
const MAX_LISTED: usize = 50;
const MAX_REASON: usize = 256;
/// No store holds so many objects; who says so reports nonsense.
const MAX_COUNT: u64 = 1_000_000_000;
/// Larger numbers are not the same to all who read JSON.
const MAX_REVISION: u64 = 1 << 53;

pub fn encode_uploaded(uploaded: &Uploaded) -> wire::Uploaded {
    let mut room = MAX_LISTED;
    let kinds = uploaded.kinds.iter().take(MAX_KINDS);
    let kinds = kinds.map(|(kind, counts)| wire::UploadedKind {
        type_url: kind.to_string(),
        ..encode_counts(counts, &mut room)
    });
    wire::Uploaded {
        revision: uploaded.revision,
        kinds: kinds.collect(),
    }
}

fn encode_counts(counts: &Counts, room: &mut usize) -> wire::UploadedKind {
    let Counts {
        wanted,
        sent,
        acknowledged,
        open,
        rejected,
        own,
        surplus,
        held,
        unread,
    } = counts;
    // At the hub all of these are in the way of what the zone sends.
    let all = rejected.listed.iter().chain(&own.listed);
    let listed = all.take(*room).map(|(name, reason)| wire::Rejection {
        name: name.to_string(),
        reason: cut(reason.clone(), MAX_REASON),
        ..wire::Rejection::default()
    });
    let listed: Vec<wire::Rejection> = listed.collect();
    *room -= listed.len();
    wire::UploadedKind {
        type_url: String::new(),
        wanted: *wanted,
        sent: *sent,
        acknowledged: *acknowledged,
        open: *open,
        more_rejected: rejected.count() + own.count() - listed.len() as u64,
        rejected: listed,
        surplus: *surplus,
        held: cut(held.clone().unwrap_or_default(), MAX_REASON),
        unread: cut(unread.clone().unwrap_or_default(), MAX_REASON),
    }
}

pub fn decode_uploaded(uploaded: wire::Uploaded) -> Result<Uploaded, ProtocolError> {
    let mut room = MAX_LISTED;
    if uploaded.revision > MAX_REVISION {
        let what = format!("revision {} is reported", uploaded.revision);
        return Err(ProtocolError::Malformed(what));
    }
    let kinds = uploaded.kinds.into_iter().take(MAX_KINDS);
    let kinds = kinds.map(|kind| Ok((parse(&kind.type_url)?, decode_counts(kind, &mut room)?)));
    Ok(Uploaded {
        revision: uploaded.revision,
        kinds: kinds.collect::<Result<_, ProtocolError>>()?,
    })
}

fn decode_counts(kind: wire::UploadedKind, room: &mut usize) -> Result<Counts, ProtocolError> {
    let counts = [
        ("wanted", kind.wanted),
        ("sent", kind.sent),
        ("acknowledged", kind.acknowledged),
        ("open", kind.open),
        ("rejected", kind.more_rejected),
        ("surplus", kind.surplus),
    ];
    if let Some((what, count)) = counts.into_iter().find(|(_, count)| *count > MAX_COUNT) {
        let what = format!(
            "{count} objects of {} are reported as {what}",
            kind.type_url
        );
        return Err(ProtocolError::Malformed(what));
    }
    let surplus = kind.rejected.len().saturating_sub(*room) as u64;
    let listed = kind.rejected.into_iter().take(*room).map(|one| {
        let name: ObjectName = parse(&one.name)?;
        Ok((name, cut(one.reason, MAX_REASON)))
    });
    let listed = listed.collect::<Result<Vec<_>, ProtocolError>>()?;
    *room -= listed.len();
    Ok(Counts {
        wanted: kind.wanted,
        // Both are counted among those that are wanted.
        sent: kind.sent.min(kind.wanted),
        acknowledged: kind.acknowledged.min(kind.wanted),
        open: kind.open,
        rejected: Reasons {
            listed,
            more: kind.more_rejected.saturating_add(surplus),
        },
        own: Reasons::default(),
        surplus: kind.surplus,
        held: (!kind.held.is_empty()).then(|| cut(kind.held, MAX_REASON)),
        unread: (!kind.unread.is_empty()).then(|| cut(kind.unread, MAX_REASON)),
    })
}

#[cfg(test)]
mod tests {
    use deltaplane_sync::SyncKind;

    use super::*;

    fn many(count: usize) -> Counts {
        let reason = "é".repeat(MAX_REASON);
        let listed = (0..count).map(|number| {
            let name = format!("ns/{number}").parse().expect("legal");
            (name, reason.clone())
        });
        Counts {
            wanted: count as u64,
            open: count as u64,
            rejected: Reasons {
                listed: listed.collect(),
                more: 3,
            },
            surplus: 1,
            held: Some("too many".to_owned()),
            unread: Some("it is not served".to_owned()),
            ..Counts::default()
        }
    }

    #[test]
    fn a_report_ends_somewhere_and_its_numbers_are_true() {
        let kind = |name: &str| SyncKind::new("", name).expect("legal");
        let kinds = [(kind("A"), many(30)), (kind("B"), many(30))];
        let uploaded = Uploaded {
            revision: 7,
            kinds: kinds.into(),
        };
        let decoded = decode_uploaded(encode_uploaded(&uploaded)).expect("legal");
        let sizes: Vec<(usize, u64)> = decoded
            .kinds
            .values()
            .map(|counts| (counts.rejected.listed.len(), counts.rejected.more))
            .collect();
        assert_eq!(sizes, [(30, 3), (20, 13)]);
        assert_eq!(decoded.revision, 7);
        let held = decoded.kinds.values().map(|counts| counts.held.as_deref());
        assert!(held.clone().all(|held| held == Some("too many")));
        let mut unread = decoded
            .kinds
            .values()
            .map(|counts| counts.unread.as_deref());
        assert!(unread.all(|unread| unread == Some("it is not served")));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let kind = |change: fn(&mut wire::UploadedKind)| {
            let mut kind = wire::UploadedKind {
                type_url: "deltaplane.io/core/ConfigMap".to_owned(),
                wanted: 10,
                sent: 9,
                acknowledged: 8,
                ..wire::UploadedKind::default()
            };
            change(&mut kind);
            decode_uploaded(wire::Uploaded {
                revision: 1,
                kinds: vec![kind],
            })
        };
        let beyond: [fn(&mut wire::UploadedKind); 6] = [
            |kind| kind.wanted = u64::MAX,
            |kind| kind.sent = u64::MAX,
            |kind| kind.acknowledged = u64::MAX,
            |kind| kind.open = u64::MAX,
            |kind| kind.more_rejected = MAX_COUNT + 1,
            |kind| kind.surplus = u64::MAX,
        ];
        for change in beyond {
            assert!(kind(change).is_err());
        }
        let legal = kind(|_| ()).expect("legal");
        let counts = legal.kinds.values().next().expect("one kind");
        assert_eq!((counts.sent, counts.acknowledged), (9, 8));
        let more = kind(|kind| kind.acknowledged = 11).expect("legal");
        let counts = more.kinds.values().next().expect("one kind");
        assert_eq!(counts.acknowledged, 10, "no more than there are");
        let future = wire::Uploaded {
            revision: u64::MAX,
            kinds: Vec::new(),
        };
        assert!(decode_uploaded(future).is_err());
    }

    /// People read it in terminals.
    #[test]
    fn what_a_zone_says_commands_no_terminal() {
        let kind = wire::UploadedKind {
            type_url: "deltaplane.io/core/ConfigMap".to_owned(),
            rejected: vec![wire::Rejection {
                name: "ns/a".to_owned(),
                reason: "\u{1b}[2Jgone\r\nsecond line\u{9b}1A".to_owned(),
                ..wire::Rejection::default()
            }],
            ..wire::UploadedKind::default()
        };
        let uploaded = wire::Uploaded {
            revision: 1,
            kinds: vec![kind],
        };
        let decoded = decode_uploaded(uploaded).expect("legal");
        let counts = decoded.kinds.values().next().expect("one kind");
        let (_, reason) = &counts.rejected.listed[0];
        assert_eq!(reason, "\u{fffd}[2Jgone\u{fffd}\nsecond line\u{fffd}1A");
    }

    /// A zone that does not keep to the sizes.
    #[test]
    fn what_a_zone_says_is_cut() {
        let rejection = |number: usize| wire::Rejection {
            name: format!("ns/{number}"),
            reason: "x".repeat(10_000),
            ..wire::Rejection::default()
        };
        let kind = |number: usize| wire::UploadedKind {
            type_url: format!("deltaplane.io/core/K{number}"),
            rejected: (0..60).map(rejection).collect(),
            held: "x".repeat(10_000),
            unread: "x".repeat(10_000),
            ..wire::UploadedKind::default()
        };
        let uploaded = wire::Uploaded {
            revision: 1,
            kinds: (0..1000).map(kind).collect(),
        };
        let decoded = decode_uploaded(uploaded).expect("legal");
        assert_eq!(decoded.kinds.len(), MAX_KINDS);
        let texts = decoded.kinds.values().map(|counts| {
            let listed = counts.rejected.listed.iter();
            let listed: usize = listed.map(|(_, reason)| reason.len()).sum();
            let texts = [&counts.held, &counts.unread].into_iter().flatten();
            listed + texts.map(String::len).sum::<usize>()
        });
        assert!(texts.sum::<usize>() < 600 * (MAX_KINDS + MAX_LISTED));
        let nonsense = wire::UploadedKind {
            type_url: "nonsense".to_owned(),
            ..wire::UploadedKind::default()
        };
        let uploaded = wire::Uploaded {
            revision: 1,
            kinds: vec![nonsense],
        };
        assert!(decode_uploaded(uploaded).is_err());
    }
}
