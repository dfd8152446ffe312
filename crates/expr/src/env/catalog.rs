//! The environments that the product uses.

use std::sync::OnceLock;

use super::{Builder, Env, Options};
use crate::library::Library;
use crate::types::Type;

fn with(options: Options, libraries: &[Library]) -> Builder {
    libraries
        .iter()
        .fold(Builder::new(options), |builder, library| {
            builder.library(*library)
        })
        .ty("optional_type", Type::optional(Type::Dyn))
}

/// The language's own library and nothing else.
pub fn standard() -> Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    let options = Options {
        presence_costs: true,
        strict: true,
        ..Options::default()
    };
    ENV.get_or_init(|| with(options, &[Library::Standard]).build())
        .clone()
}

/// What validation rules of CustomResourceDefinitions see, as in Kubernetes 1.36.
pub fn kubernetes() -> Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    let options = Options {
        homogeneous: true,
        cross_type_numbers: true,
        presence_costs: false,
        validate_literals: true,
        first_format: true,
        strict: false,
        unordered_nan: false,
    };
    ENV.get_or_init(|| with(options, KUBERNETES).build())
        .clone()
}

const KUBERNETES: &[Library] = &[
    Library::Standard,
    Library::Urls,
    Library::Regex,
    Library::KubernetesLists,
    Library::Optionals,
    Library::Quantity,
    Library::KubernetesStrings,
    Library::Sets,
    Library::Ip,
    Library::Cidr,
    Library::Format,
    Library::TwoVariables,
    Library::Semver,
    Library::FirstLists,
];

const KRO: &[Library] = &[
    Library::Standard,
    Library::TwoVariables,
    Library::Lists,
    Library::Strings,
    Library::Bindings,
    Library::Optionals,
    Library::Encoders,
    Library::KubernetesLists,
    Library::Urls,
    Library::Regex,
    Library::Quantity,
    Library::Ip,
    Library::Cidr,
    Library::Semver,
    Library::Kro,
];

/// What graphs see, as in kro; `omit()` is for templates only and comes with
/// [`Library::KroOmit`].
pub fn kro() -> Builder {
    with(
        Options {
            presence_costs: true,
            unordered_nan: true,
            ..Options::default()
        },
        KRO,
    )
}

/// What gates see: kro's functions, and those of the host that [`Builder::overload`] adds.
pub fn gate() -> Builder {
    with(
        Options {
            presence_costs: true,
            cross_type_numbers: true,
            unordered_nan: true,
            ..Options::default()
        },
        KRO,
    )
}

/// Everything that the language's conformance data uses.
pub fn conformance() -> Builder {
    let options = Options {
        presence_costs: true,
        cross_type_numbers: true,
        strict: true,
        ..Options::default()
    };
    with(
        options,
        &[
            Library::Standard,
            Library::SpecStrings,
            Library::Math,
            Library::Lists,
            Library::Sets,
            Library::Encoders,
            Library::Bindings,
            Library::Blocks,
            Library::TwoVariables,
            Library::Optionals,
            Library::SpecIp,
            Library::Cidr,
        ],
    )
}
