//! Functions by library: each is a table of rows (name, overload, signature, cost, function).

mod encoders;
mod kro;
mod kubernetes;
mod lists;
mod math;
mod optionals;
mod sets;
pub(crate) mod standard;
pub(crate) mod strings;

pub use kro::{CONDITION, is_omitted};
pub use kubernetes::authorizer::{
    Authority, Decision, Principal, Question, ResourceTarget, Target,
};
pub(crate) use lists::{sorted, sorting};

use crate::env::Row;
use crate::syntax::MacroSet;

/// A set of functions, and the macros that come with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Operators, conversions, sizes, times, parts of strings.
    Standard,
    /// `charAt`, `split`, `format`, …
    Strings,
    /// `math.greatest`, `math.abs`, bit operations, …
    Math,
    /// `slice`, `flatten`, `distinct`, `sort`, `lists.range`, …
    Lists,
    /// `sets.contains`, `sets.equivalent`, `sets.intersects`.
    Sets,
    /// `base64.encode`, `base64.decode`.
    Encoders,
    /// `cel.bind`.
    Bindings,
    /// `cel.block` and its kin, for tests of the language.
    Blocks,
    /// `all` and the others with two variables, `transformList`, …
    TwoVariables,
    /// `?.`, `optional.of`, `orValue`, `optMap`, …
    Optionals,
    /// Like [`Self::Strings`] in the words of the specification, where cel-go and with it
    /// Kubernetes and kro answer more leniently.
    SpecStrings,
    /// Like [`Self::Strings`] with the first release of `format`, which Kubernetes has.
    KubernetesStrings,
    /// Like [`Self::Lists`] with the first release of `lists.range`, which Kubernetes has.
    FirstLists,
    /// `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf` of lists.
    KubernetesLists,
    /// `find`, `findAll`.
    Regex,
    /// `url`, `isURL`, `getHost`, …
    Urls,
    /// `quantity`, `isQuantity`, `compareTo`, …
    Quantity,
    /// `ip`, `isIP`, `family`, …
    Ip,
    /// Like [`Self::Ip`] in the words of the specification.
    SpecIp,
    /// `cidr`, `isCIDR`, `containsIP`, …
    Cidr,
    /// `semver`, `isSemver`, `major`, …
    Semver,
    /// `format.named`, `format.dns1123Label`, `validate`, …
    Format,
    /// `jsonpatch.escapeKey`.
    JsonPatch,
    /// `group`, `resource`, `check`, … of an `authorizer`.
    Authorizer,
    /// kro's `random`, `merge`, `json`, `hash`, `lists.setAtIndex`, `runtime`.
    Kro,
    /// kro's `omit`, for templates.
    KroOmit,
}

/// What a library brings.
pub(crate) struct Contents {
    pub(crate) rows: &'static [&'static [Row]],
    pub(crate) types: &'static [&'static str],
    /// Fields of its types: a type and their names. All of them are strings.
    pub(crate) fields: &'static [(&'static str, &'static [&'static str])],
    /// Which macros and which syntax come with it.
    pub(crate) syntax: fn(&mut MacroSet, &mut bool),
}

const NO_SYNTAX: fn(&mut MacroSet, &mut bool) = |_, _| {};

impl Library {
    /// All of them.
    #[cfg(test)]
    const ALL: [Self; 26] = [
        Self::Standard,
        Self::Strings,
        Self::Math,
        Self::Lists,
        Self::Sets,
        Self::Encoders,
        Self::Bindings,
        Self::Blocks,
        Self::TwoVariables,
        Self::Optionals,
        Self::SpecStrings,
        Self::KubernetesStrings,
        Self::FirstLists,
        Self::KubernetesLists,
        Self::Regex,
        Self::Urls,
        Self::Quantity,
        Self::Ip,
        Self::SpecIp,
        Self::Cidr,
        Self::Semver,
        Self::Format,
        Self::JsonPatch,
        Self::Authorizer,
        Self::Kro,
        Self::KroOmit,
    ];

    pub(crate) fn contents(self) -> Contents {
        let functions = |rows| Contents {
            rows,
            types: &[],
            fields: &[],
            syntax: NO_SYNTAX,
        };
        let macros = |rows, syntax| Contents {
            rows,
            types: &[],
            fields: &[],
            syntax,
        };
        let typed = |rows, types| Contents {
            rows,
            types,
            fields: &[],
            syntax: NO_SYNTAX,
        };
        match self {
            Self::Standard => functions(standard::TABLES),
            Self::SpecStrings => functions(strings::SPEC),
            Self::KubernetesStrings => functions(strings::KUBERNETES),
            Self::KubernetesLists => functions(kubernetes::lists::TABLES),
            Self::Regex => functions(kubernetes::regex::TABLES),
            Self::JsonPatch => functions(kubernetes::jsonpatch::TABLES),
            Self::Urls => typed(kubernetes::url::TABLES, &[kubernetes::url::TYPE]),
            Self::Quantity => typed(kubernetes::quantity::TABLES, &[kubernetes::quantity::TYPE]),
            Self::Ip => typed(kubernetes::ip::TABLES, &[kubernetes::ip::TYPE]),
            Self::SpecIp => typed(kubernetes::ip::SPEC, &[kubernetes::ip::TYPE]),
            Self::Cidr => typed(kubernetes::cidr::TABLES, &[kubernetes::cidr::TYPE]),
            Self::Semver => typed(kubernetes::semver::TABLES, &[kubernetes::semver::TYPE]),
            Self::Format => typed(kubernetes::format::TABLES, &[kubernetes::format::TYPE]),
            Self::Authorizer => typed(
                kubernetes::authorizer::TABLES,
                kubernetes::authorizer::TYPES,
            ),
            Self::Kro => Contents {
                rows: kro::TABLES,
                types: &[kro::CONDITION],
                fields: &[(kro::CONDITION, &kro::CONDITION_FIELDS)],
                syntax: |macros, _| macros.conditions = true,
            },
            Self::KroOmit => functions(kro::OMIT),
            Self::Strings => functions(strings::TABLES),
            Self::Sets => functions(sets::TABLES),
            Self::Encoders => functions(encoders::TABLES),
            Self::Math => macros(math::TABLES, |macros, _| macros.math = true),
            Self::Lists => macros(lists::TABLES, |macros, _| macros.sort_by = true),
            Self::FirstLists => macros(lists::KUBERNETES, |macros, _| macros.sort_by = true),
            Self::Bindings => macros(&[], |macros, _| macros.bindings = true),
            Self::Blocks => macros(&[], |macros, _| macros.blocks = true),
            Self::TwoVariables => macros(&[], |macros, _| macros.two_variables = true),
            Self::Optionals => macros(optionals::TABLES, |macros, optionals| {
                macros.optionals = true;
                *optionals = true;
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::types::Signature;

    #[test]
    fn every_row_has_a_signature_and_an_id_of_its_own() {
        for library in Library::ALL {
            let mut ids = BTreeSet::new();
            for row in library.contents().rows.iter().flat_map(|rows| rows.iter()) {
                assert!(
                    Signature::parse(row.signature).is_some(),
                    "{}: {}",
                    row.id,
                    row.signature
                );
                assert!(ids.insert(row.id), "{} is there twice", row.id);
            }
        }
    }
}
