//! What a policy has for a zone of which it is not decided what the zone should have: for comparing
//! it with what the zone holds, and nothing is sent because of it.

use deltaplane_propagation::stages::{Admitted, Class, Phase};
use deltaplane_sync::{Difference, Version, ZoneName};
use serde_json::{Map, Value};

use super::contents::Contents;
use super::governor::Governor;
use super::release::{Id, Manifest};
use super::render::{Patch, render};

/// The contents that a policy has for one zone.
pub(crate) struct ZoneContents<'a> {
    governor: &'a Governor,
    contents: &'a Contents,
    /// The release that the zone was admitted to last.
    admitted: Option<Admitted>,
    /// What a release would have that was made now, and its overrides for the zone.
    next: Manifest,
    next_overrides: ZoneOverrides,
}

/// Overrides of a policy, and those of them that are for one zone.
struct ZoneOverrides {
    patches: Vec<Patch>,
    class: Class,
}

/// The versions of an object that is frozen for a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrozenVersions {
    /// In the zone; `Version::altered` if it may be any.
    pub(crate) held: Option<Version>,
    pub(crate) assigned: AssignedVersion,
    /// As it would be released next.
    pub(crate) next: Option<Version>,
}

/// The version of an object in the release that a zone was admitted to last: nothing if the release
/// is without the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssignedVersion {
    Released(Option<Version>),
    /// The zone lost its place, and may not have had it.
    Deferred(Option<Version>),
    /// There is no such release, or it does not say.
    Unknown,
}

/// A difference between a zone and the hub in an object that is frozen for the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrozenDifference {
    pub(crate) how: Difference,
    /// The zone does not hold the object, and the hub does not know whether it ever should have.
    pub(crate) doubtful_absence: bool,
}

// === impl FrozenVersions ===

impl FrozenVersions {
    /// Returns true for an object of the hub that the zone holds, or was admitted to: what a zone
    /// alone says that it holds does not count.
    pub(crate) fn is_of_zone(self) -> bool {
        let is_assigned = matches!(self.assigned, AssignedVersion::Released(Some(_)));
        is_assigned || (self.held.is_some() && self.next.is_some())
    }

    /// Compares a zone with the hub. A zone that holds what it was admitted to, or what comes next,
    /// has nothing that gets lost. `followed` says whether the zone followed releases of the policy:
    /// one that never did lacks its objects for no reason of its own.
    pub(crate) fn difference(self, followed: bool) -> Option<FrozenDifference> {
        let Self {
            held,
            assigned,
            next,
        } = self;
        if held == next || assigned.is(held) {
            return None;
        }
        let how = match (held, next) {
            (Some(_), Some(_)) => Difference::Changed,
            (Some(_), None) => Difference::OnlyReceiver,
            (None, _) => Difference::OnlySender,
        };
        let is_assigned = matches!(assigned, AssignedVersion::Released(_));
        let doubtful_absence = held.is_none() && !is_assigned;
        (followed || !doubtful_absence).then_some(FrozenDifference {
            how,
            doubtful_absence,
        })
    }
}

// === impl AssignedVersion ===

impl AssignedVersion {
    fn is(self, held: Option<Version>) -> bool {
        match self {
            Self::Released(version) | Self::Deferred(version) => version == held,
            Self::Unknown => false,
        }
    }
}

// === impl Governor ===

impl Governor {
    /// What the policy has for a zone.
    pub(crate) fn contents_for<'a>(
        &'a self,
        contents: &'a Contents,
        (zone, object): (&ZoneName, &Map<String, Value>),
    ) -> ZoneContents<'a> {
        let (next, overrides) = self.releasable();
        ZoneContents {
            governor: self,
            contents,
            admitted: self.record.zones.get(zone.as_str()).copied(),
            next,
            next_overrides: ZoneOverrides::read(&overrides, object),
        }
    }

    /// Returns true if a zone may have an object with overrides, of the release that it was admitted
    /// to or of the next.
    pub(crate) fn may_override(
        &self,
        id: &Id,
        (zone, object): (&ZoneName, &Map<String, Value>),
    ) -> bool {
        let concerns = |patch: &Patch| patch.may_change((&id.0, &id.1));
        let admitted = self.record.zones.get(zone.as_str());
        let released = admitted.is_some_and(|Admitted { target, .. }| {
            let release = self.releases.get(&target.release);
            let patch = |place| release.and_then(|release| release.patches.get(place));
            target
                .class
                .places()
                .any(|place| patch(place).is_some_and(concerns))
        });
        let next = ZoneOverrides::read(&self.overrides(), object);
        released
            || next
                .class
                .places()
                .any(|place| concerns(&next.patches[place]))
    }
}

// === impl ZoneOverrides ===

impl ZoneOverrides {
    /// As a policy, or a release, has them.
    fn read(overrides: &Value, zone: &Map<String, Value>) -> Self {
        let metadata = zone.get("metadata");
        let labels = metadata.and_then(|metadata| metadata.get("labels"));
        let written = overrides.as_array().into_iter().flatten();
        let patches: Vec<Patch> = written.filter_map(Patch::read).collect();
        let is_for_zone = |patch: &Patch| patch.zones.matches(|key| labels?.get(key)?.as_str());
        let places = patches.iter().enumerate().take(Class::MOST);
        let places = places.filter(|(_, patch)| is_for_zone(patch));
        let class = Class::of(places.map(|(place, _)| place));
        Self { patches, class }
    }
}

// === impl ZoneContents ===

impl ZoneContents<'_> {
    /// The versions of an object that the zone holds in this one.
    pub(crate) fn versions(&self, id: &Id, held: Option<Version>) -> FrozenVersions {
        FrozenVersions {
            held,
            assigned: self.assigned(id).unwrap_or(AssignedVersion::Unknown),
            next: self.next(id),
        }
    }

    fn assigned(&self, id: &Id) -> Option<AssignedVersion> {
        let Admitted { target, phase, .. } = self.admitted?;
        let release = self.governor.releases.get(&target.release)?;
        if !self.governor.decides(id, release) {
            return None;
        }
        let version = match release.manifest.get(id) {
            Some(version) => {
                let patched = self.patched(id, *version, &release.patches, target.class);
                Some(patched?)
            }
            None if self.governor.took_away(id, target.release) => None,
            None => return None,
        };
        Some(match phase {
            Phase::Deferred => AssignedVersion::Deferred(version),
            Phase::Started | Phase::Admitted | Phase::Arrived | Phase::Failed => {
                AssignedVersion::Released(version)
            }
        })
    }

    fn next(&self, id: &Id) -> Option<Version> {
        let version = *self.next.get(id)?;
        let ZoneOverrides { patches, class } = &self.next_overrides;
        Some(
            self.patched(id, version, patches, *class)
                .unwrap_or(version),
        )
    }

    /// The version of an object with overrides; nothing if they cannot be applied.
    fn patched(
        &self,
        id: &Id,
        version: Version,
        patches: &[Patch],
        class: Class,
    ) -> Option<Version> {
        if class == Class::default() {
            return Some(version);
        }
        let body = self.governor.content(self.contents, id, version)?;
        let item = render((&id.0, &id.1), &body, patches, class);
        item.ok().map(|item| item.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version that only some know.
    fn version(content: u8) -> Version {
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"content": content.to_string()},
        });
        deltaplane_sync::Crossing::of(&object)
            .expect("an object")
            .version()
    }

    fn difference(
        held: Option<u8>,
        assigned: AssignedVersion,
        next: Option<u8>,
    ) -> Option<Difference> {
        let versions = FrozenVersions {
            held: held.map(version),
            assigned,
            next: next.map(version),
        };
        versions.difference(true).map(|found| found.how)
    }

    #[test]
    fn a_zone_differs_that_holds_neither_its_release_nor_the_next() {
        use Difference::{Changed, OnlyReceiver, OnlySender};
        let released = |content: Option<u8>| AssignedVersion::Released(content.map(version));
        for (held, assigned, next, expected) in [
            (Some(1), released(Some(1)), Some(1), None),
            // The hub has something that is not released yet.
            (Some(1), released(Some(1)), Some(2), None),
            (Some(1), released(Some(1)), None, None),
            (None, released(None), Some(1), None),
            // Somebody wrote at the hub what the zone has.
            (Some(2), released(Some(1)), Some(2), None),
            (None, released(Some(1)), None, None),
            // The zone followed something that the hub does not know.
            (Some(2), released(Some(1)), Some(1), Some(Changed)),
            (Some(2), released(None), Some(1), Some(Changed)),
            (Some(2), released(Some(1)), None, Some(OnlyReceiver)),
            (Some(2), AssignedVersion::Unknown, Some(1), Some(Changed)),
            (Some(2), AssignedVersion::Unknown, None, Some(OnlyReceiver)),
            (None, released(Some(1)), Some(1), Some(OnlySender)),
        ] {
            let found = difference(held, assigned, next);
            assert_eq!(found, expected, "{held:?} {assigned:?} {next:?}");
        }
        let altered = FrozenVersions {
            held: Some(Version::altered()),
            assigned: released(Some(1)),
            next: Some(version(1)),
        };
        let found = altered.difference(true).map(|found| found.how);
        assert_eq!(found, Some(Changed));
    }

    #[test]
    fn objects_count_that_the_hub_has_and_the_zone_should_have_had() {
        let one = Some(version(1));
        for (held, assigned, next, counts) in [
            (one, AssignedVersion::Released(one), one, true),
            (None, AssignedVersion::Released(one), None, true),
            (one, AssignedVersion::Unknown, one, true),
            (None, AssignedVersion::Unknown, one, false),
            (None, AssignedVersion::Deferred(one), one, false),
            (one, AssignedVersion::Unknown, None, false),
        ] {
            let versions = FrozenVersions {
                held,
                assigned,
                next,
            };
            assert_eq!(versions.is_of_zone(), counts, "{versions:?}");
        }
    }

    #[test]
    fn an_absence_is_doubtful_where_the_zone_may_never_have_had_the_object() {
        for (assigned, doubtful) in [
            (AssignedVersion::Released(Some(version(1))), false),
            (AssignedVersion::Deferred(Some(version(1))), true),
            (AssignedVersion::Unknown, true),
        ] {
            let absent = FrozenVersions {
                held: None,
                assigned,
                next: Some(version(1)),
            };
            let found = absent.difference(true).expect("it differs");
            assert_eq!(found.doubtful_absence, doubtful, "{assigned:?}");
            // A zone that never followed the policy lacks its objects anyway.
            assert_eq!(absent.difference(false).is_none(), doubtful, "{assigned:?}");
        }
    }
}
