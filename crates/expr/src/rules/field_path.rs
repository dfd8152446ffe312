//! `fieldPath`: where below its value a rule sees the fault.

use deltaplane_api::field;
use deltaplane_schema::{Additional, Node, field_path};

/// The path as errors write it; nothing when there is none or when it names no field of `node`.
pub(super) fn normalized(path: &str, node: Node<'_>) -> Option<String> {
    let mut node = node;
    let mut found = field::Path::root();
    for name in field_path::steps(path)? {
        let declared = node.properties().len() > 0;
        found = match declared {
            true => found.child(&name),
            false => found.key(&name),
        };
        node = match (declared, node.additional()) {
            (true, _) => node.property(&name)?,
            (false, Additional::Schema(values)) => values,
            (false, Additional::Unspecified | Additional::Denied | Additional::Any) => return None,
        };
    }
    (!path.is_empty()).then(|| found.as_str().to_owned())
}
