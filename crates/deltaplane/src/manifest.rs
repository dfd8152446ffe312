//! `zone manifest`: what must be in a cluster before it can be a zone, as YAML.

use deltaplane_zone::{GraphRights, Manifest};

use crate::args;

/// Why it cannot be printed.
#[derive(Debug, thiserror::Error)]
#[error("failed to write YAML")]
pub(crate) struct ManifestError(#[from] serde_saphyr::ser::Error);

/// How to go on from here, for whoever reads the file.
const HEAD: &str = "\
# What `deltaplane zone --kubeconfig` needs in a cluster that is to be a zone, and nothing beside it.
# Apply it as an administrator, then make a credential for the agent and put it into a kubeconfig:
#
#   kubectl create token deltaplane-zone --namespace NAMESPACE --duration 24h
#
# Finding out what the cluster serves is every account's by default (ClusterRole system:discovery).
";

const NO_KINDS: &str = "\
#
# No kinds were named, so none of the hub's objects can come here yet. Name those that the hub's
# SyncedKinds name:
#
#   deltaplane zone manifest --kinds widgets.example.com,configmaps
";

const SECRETS: &str = "\
#
# Secrets were named: the agent can then read all of the cluster's, although it sends none but those
# with the label deltaplane.io/sync=true.
";

const GRAPHS: &str = "\
#
# Graphs run as the service account deltaplane-graphs of the namespace of each instance, with the
# rights of ClusterRole deltaplane-graphs: `deltaplane zone --kubeconfig … --graphs`. Label further
# ClusterRoles with deltaplane.io/aggregate-to-graphs=true to extend it. What gates decided is kept in
# Secrets, so that the agent can list those of the cluster.
";

const CONTROLLER: &str = "\
#
# Graphs run with the rights of the agent, whoever wrote them: `deltaplane zone --kubeconfig …
# --graphs --graph-identity=controller`. What their gates decided is kept in Secrets, so that the
# agent can list those of the cluster.
";

/// What is printed.
pub(crate) fn text(asked: args::Manifest) -> Result<String, ManifestError> {
    let args::Manifest {
        namespace,
        kinds,
        graphs,
        graph_objects,
        graph_accounts,
        graph_identity,
        impersonate,
    } = asked;
    let mut text = HEAD.replace("NAMESPACE", &namespace);
    if kinds.is_empty() {
        text.push_str(NO_KINDS);
    }
    if kinds.iter().any(|kind| kind.to_string() == "secrets") {
        text.push_str(SECRETS);
    }
    let graphs = (!graphs.is_empty()).then_some(GraphRights {
        instances: graphs,
        objects: graph_objects,
        accounts: match graph_identity {
            args::GraphIdentityArg::Account => graph_accounts,
            args::GraphIdentityArg::Controller => Vec::new(),
        },
    });
    match &graphs {
        Some(graphs) if graphs.accounts.is_empty() => text.push_str(CONTROLLER),
        Some(_) => text.push_str(GRAPHS),
        None => {}
    }
    let manifest = Manifest {
        namespace,
        kinds,
        graphs,
        impersonate,
    };
    for object in manifest.objects() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use expect_test::{ExpectFile, expect_file};

    use super::*;

    fn check(kinds: &[&str], impersonate: bool, expected: ExpectFile) {
        let kinds = kinds.iter().map(|kind| kind.parse().expect("legal"));
        let asked = args::Manifest {
            namespace: "deltaplane-system".to_owned(),
            kinds: kinds.collect(),
            graphs: Vec::new(),
            graph_objects: Vec::new(),
            graph_accounts: vec!["deltaplane-graphs".to_owned()],
            graph_identity: args::GraphIdentityArg::Account,
            impersonate,
        };
        expected.assert_eq(&text(asked).expect("YAML"));
    }

    #[test]
    fn without_kinds_it_says_how_to_name_them() {
        check(&[], false, expect_file!["manifest/no-kinds.yaml"]);
    }

    #[test]
    fn with_kinds_it_has_the_rights_for_them() {
        let kinds = [
            "widgets.example.com",
            "gadgets.example.com",
            "secrets",
            "namespaces",
        ];
        check(&kinds, true, expect_file!["manifest/kinds.yaml"]);
    }
}
