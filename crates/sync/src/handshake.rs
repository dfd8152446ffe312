//! What two processes agree on before they stream.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::names::{SyncKind, ZoneName};
use crate::wire::{Epoch, FollowedPosition};

/// The versions of the protocol that are spoken here.
pub const PROTOCOLS: RangeInclusive<u32> = 1..=1;
/// What can be done beyond them.
pub const FEATURES: [&str; 5] = [QUERY, REPAIR, "report", OWN, READINESS];
/// The zone answers questions of the hub.
pub const QUERY: &str = "query";
/// The sender takes [`crate::Request::Repair`].
pub const REPAIR: &str = "repair";
/// The sender knows what it means that the receiver keeps an object of its own.
pub const OWN: &str = "own";
/// The hub asks, and the zone says, how what the zone holds fares there.
pub const READINESS: &str = "readiness";

/// How many mirrored kinds a zone names when it connects, at most.
pub const MOST_MIRRORED_KINDS: usize = 2_000;

/// What a zone says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub zone: ZoneName,
    /// The product's version, for people.
    pub product: String,
    /// The versions of this protocol that it speaks.
    pub protocols: RangeInclusive<u32>,
    pub features: BTreeSet<String>,
    /// Which store it has.
    pub epoch: Epoch,
    /// How far it followed a hub, if it ever did.
    pub followed: Option<FollowedPosition>,
    /// The kinds that it mirrors, or did: it says what it holds of each of them.
    pub mirrored_kinds: BTreeSet<SyncKind>,
}

/// What a hub answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    pub product: String,
    /// The newest version that both speak.
    pub protocol: u32,
    /// Those that both have.
    pub features: BTreeSet<String>,
    pub epoch: Epoch,
}

/// Why a zone cannot be served, for a person to act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "zone {zone} (deltaplane {theirs}) speaks sync versions up to {newest}, this hub (deltaplane {ours}) {oldest} and newer: upgrade the zone"
    )]
    ZoneTooOld {
        zone: ZoneName,
        theirs: String,
        ours: String,
        newest: u32,
        oldest: u32,
    },
    #[error(
        "zone {zone} (deltaplane {theirs}) speaks sync version {oldest} and newer, this hub (deltaplane {ours}) up to {newest}: upgrade the hub"
    )]
    HubTooOld {
        zone: ZoneName,
        theirs: String,
        ours: String,
        newest: u32,
        oldest: u32,
    },
}

/// What the hub of `welcome`, which speaks `protocols`, answers to a zone.
pub fn welcome(
    hello: &Hello,
    welcome: &Welcome,
    protocols: &RangeInclusive<u32>,
) -> Result<Welcome, Refused> {
    let (theirs, ours) = (hello.product.clone(), welcome.product.clone());
    let zone = hello.zone.clone();
    if hello.protocols.end() < protocols.start() {
        return Err(Refused::ZoneTooOld {
            zone,
            theirs,
            ours,
            newest: *hello.protocols.end(),
            oldest: *protocols.start(),
        });
    }
    if hello.protocols.start() > protocols.end() {
        return Err(Refused::HubTooOld {
            zone,
            theirs,
            ours,
            newest: *protocols.end(),
            oldest: *hello.protocols.start(),
        });
    }
    let common = welcome.features.intersection(&hello.features);
    Ok(Welcome {
        product: ours,
        protocol: *hello.protocols.end().min(protocols.end()),
        features: common.cloned().collect(),
        epoch: welcome.epoch.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(zone: RangeInclusive<u32>, hub: RangeInclusive<u32>) -> Result<u32, String> {
        let features = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let hello = Hello {
            zone: "eu-1".parse().expect("legal"),
            product: "0.2.0".to_owned(),
            protocols: zone,
            features: features(&["query", "later"]),
            epoch: Epoch("z".into()),
            followed: None,
            mirrored_kinds: BTreeSet::new(),
        };
        let ours = Welcome {
            product: "0.1.0".to_owned(),
            protocol: 0,
            features: features(&["query", "report"]),
            epoch: Epoch("h".into()),
        };
        let welcome = welcome(&hello, &ours, &hub).map_err(|refused| refused.to_string())?;
        assert_eq!(welcome.features, features(&["query"]));
        Ok(welcome.protocol)
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        assert_eq!(meet(1..=3, 1..=2), Ok(2));
        assert_eq!(meet(2..=2, 1..=4), Ok(2));
        assert_eq!(
            meet(1..=1, 2..=3),
            Err("zone eu-1 (deltaplane 0.2.0) speaks sync versions up to 1, this hub (deltaplane 0.1.0) 2 and newer: upgrade the zone".to_owned())
        );
        assert_eq!(
            meet(4..=5, 2..=3),
            Err("zone eu-1 (deltaplane 0.2.0) speaks sync version 4 and newer, this hub (deltaplane 0.1.0) up to 3: upgrade the hub".to_owned())
        );
    }
}
