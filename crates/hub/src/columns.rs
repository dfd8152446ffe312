//! The ZONES column: how many of the zones that should have an object have it as it is.

use deltaplane_apiserver::seams::{Resource, TableColumn, TableColumns};
use deltaplane_fleet::Fleet;
use deltaplane_sync::{ObjectName, SyncKind};
use serde_json::Value;

/// Adds the column to the Tables of synced kinds.
pub(crate) struct ZonesColumn(pub(crate) Fleet);

const COLUMN: [TableColumn; 1] = [TableColumn {
    name: "Zones",
    r#type: "string",
    description: "How many of the zones that should have this object have it as it is.",
    priority: 0,
}];

// === impl ZonesColumn ===

impl TableColumns for ZonesColumn {
    fn columns(&self, group: &str, plural: &str) -> &[TableColumn] {
        match self.0.is_synced(group, plural) {
            true => &COLUMN,
            false => &[],
        }
    }

    fn cells(&self, resource: Resource<'_>, _object: &Value) -> Vec<Value> {
        let kind = SyncKind::new(resource.group, resource.kind);
        let name = ObjectName::new(resource.namespace, resource.name);
        let (Ok(kind), Ok(name)) = (kind, name) else {
            return vec![Value::Null];
        };
        let (have, want) = self.0.spread(&kind, &name);
        vec![match want {
            // It does not cross.
            0 => "-".into(),
            _ => format!("{have}/{want}").into(),
        }]
    }
}
