//! Where we differ on purpose: `docs/kro-compatibility.md` says more of it.

/// Why, and the cases that differ for that reason.
const REASONS: &[(&str, &[&str])] = &[
    (
        "fields without a type can be read, and are part of what they are in",
        &[
            "test/integration/suites/core/unknown_fields_test.go/Unknown Fields Second RGD status referencing first RGD status should not panic when the second RGD embeds the first RGD#2",
            "ours: /resources/0/readyWhen is [\"${shape.status.free == true}\"]",
            "ours: /schema/status/phase is \"${shape.status.free}\"",
            "ours: /schema/status/phase is \"${shape.status}\"",
            "ours: a deployment",
            "ours: an autoscaler",
        ],
    ),
    (
        "a status keeps what is in an object of any shape",
        &[
            "ours: /resources/0/template/spec/text is \"${schema.spec.options}\"",
            "ours: /schema/status/phase is \"${shape.spec.any}\"",
            "ours: /schema/status/phase is \"${shape.metadata.managedFields}\"",
            "ours: /schema/status/phase is \"${schema.spec}\"",
            "ours: /schema/status/phase is \"${schema.spec.options}\"",
        ],
    ),
    (
        "fields of a status have the names that they have, not those that expressions write",
        &[
            "ours: /schema/status/phase is \"${shape}\"",
            "ours: /schema/status/phase is \"${shape.metadata}\"",
            "ours: /schema/status/phase is \"${shape.spec}\"",
            "ours: /schema/status/phase is \"${shape.status.nested}\"",
            "ours: /schema/status/phase is \"${shape.spec.embedded}\"",
            "ours: /schema/status/phase is \"${config}\"",
            "ours: /schema/status/phase is \"${zoned}\"",
            "ours: /schema/status/phase is \"${zoned[0]}\"",
            "ours: /schema/status/phase is \"${found}\"",
            "ours: /schema/status/phase is \"${several}\"",
            "ours: /schema/status/phase is \"${several.map(s, s.metadata)}\"",
            "ours: /schema/status/phase is \"${region}\"",
            "ours: /schema/status/phase is \"${region.metadata}\"",
            "ours: /schema/status/phase is \"${schema}\"",
            "ours: /schema/status/phase is \"${schema.metadata}\"",
            "ours: /schema/status/phase is \"${[shape]}\"",
            "ours: /schema/status/phase is \"${{'a': shape.metadata}}\"",
            "ours: /schema/status/phase is \"${shape.status.ready ? shape.metadata : null}\"",
            "ours: a pod",
        ],
    ),
    (
        "a text goes wherever JSON has a text, whatever its format",
        &[
            "ours: /resources/0/template/metadata/creationTimestamp is \"${schema.spec.name}\"",
            "ours: /resources/0/template/spec/bytes is \"${schema.spec.name}\"",
            "ours: /resources/0/template/spec/bytes is \"${base64.encode(b'a')}\"",
            "ours: /resources/0/template/spec/bytes is \"a${schema.spec.name}\"",
            "ours: /resources/0/template/spec/date is \"${schema.spec.name}\"",
            "ours: /resources/0/template/spec/duration is \"${schema.spec.name}\"",
            "ours: /resources/0/template/spec/time is \"${schema.spec.name}\"",
            "ours: /resources/0/template/spec/time is \"2020-${schema.spec.name}\"",
            "ours: /resources/0/template/spec/time is \"${string(timestamp('2020-01-01T00:00:00Z'))}\"",
            "ours: a secret of text",
        ],
    ),
    (
        "an unsigned integer is an integer in JSON",
        &["ours: /resources/0/template/spec/integer is \"${1u}\""],
    ),
    (
        "an empty map has no keys that could be wrong",
        &[
            "ours: /resources/0/template/spec/empty is \"${{}}\"",
            "ours: /resources/0/template/spec/parts is \"${[{}]}\"",
        ],
    ),
    (
        "a value that is none cannot be an object",
        &[
            "ours: /resources/0/template/spec/nested is \"${schema.spec.name}\"",
            "ours: /resources/0/template/spec/nested is \"${schema.spec.count}\"",
            "ours: /resources/0/template/spec/nested is \"${schema.spec.zones}\"",
            "ours: /resources/0/template/spec/parts is \"${schema.spec.zones}\"",
        ],
    ),
    (
        "names with brackets, and empty ones, are names",
        &[
            "ours: /resources/0/template/spec/map is {\"\":\"${schema.spec.name}\"}",
            "ours: /schema/status is {\"a[0]\":\"${shape.status.phase}\"}",
        ],
    ),
    (
        "what selectors are made of is texts, and that is checked before there is an instance",
        &[
            "ours: /resources/4/externalRef/metadata/selector is {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"${schema.spec.count}\"]}]}",
            "ours: /resources/4/externalRef/metadata/selector is {\"matchExpressions\":\"${schema.spec.parts}\"}",
            "test/integration/suites/core/externalref_watch_test.go/ExternalRef Watch external collection with matchExpressions CEL resolves dynamic values: the first field is a list",
            "test/integration/suites/core/externalref_watch_test.go/ExternalRef Watch external collection with matchExpressions CEL resolves dynamic values: /spec/resources/0/externalRef/metadata/selector/matchExpressions/0/values/0 is in a list",
            "test/integration/suites/core/externalref_watch_test.go/ExternalRef Watch external collection with matchExpressions CEL resolves dynamic values: /spec/resources/0/externalRef/metadata/selector/matchExpressions/0/values/0 is a number",
            "test/integration/suites/core/externalref_watch_test.go/ExternalRef Watch external collection with matchExpressions CEL resolves dynamic values: /spec/resources/0/externalRef/metadata/selector/matchExpressions/0/values/0 is a condition",
        ],
    ),
    (
        "readyWhen of a selector sees each object",
        &["ours: /resources/4/readyWhen is [\"${each.metadata.name != ''}\"]"],
    ),
    (
        "ids are values of labels, which have 63 characters at most",
        &[
            "ours: /resources/5/id is \"abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcd\"",
        ],
    ),
    (
        "an empty group is none, and so the default one",
        &["ours: /schema/group is \"\""],
    ),
];

/// Names of cases, and why they differ.
pub(super) fn all() -> Vec<(&'static str, &'static str)> {
    let reasons = REASONS.iter();
    reasons
        .flat_map(|(reason, names)| names.iter().map(|name| (*name, *reason)))
        .collect()
}
