//! What `up` prints when it is ready.

use std::path::Path;

use deltaplane_hub::Hub;
use deltaplane_sync::ZoneName;

pub(crate) fn up(hub: &Hub, zones: &[ZoneName]) -> String {
    text(hub.url(), hub.kubeconfig(), zones)
}

fn text(url: &str, kubeconfig: &Path, zones: &[ZoneName]) -> String {
    let names: Vec<&str> = zones.iter().map(ZoneName::as_str).collect();
    let listed = match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    };
    let in_zone = names.first().map_or_else(String::new, |zone| {
        format!(
            "  kubectl --context {zone} wait configmap/hello --for=create --timeout=30s
  kubectl --context {zone} get configmap hello -o jsonpath='{{.data.greeting}}'\n"
        )
    });
    let path_of_examples = "deltaplane-examples";
    let path = quoted(&kubeconfig.display().to_string());
    format!(
        "deltaplane is ready

  address     {url}
  kubeconfig  {path}
  zones       {listed}

Try, in another terminal:

  export KUBECONFIG={path}
  kubectl get zones
  deltaplane examples write {path_of_examples}
  kubectl apply -f {path_of_examples}/synced-configmaps.yaml
  kubectl create configmap hello --from-literal=greeting=hi
  kubectl label configmap hello cross=yes
{in_zone}  kubectl get configmap hello

What crosses to zones is what a SyncedKind says; {path_of_examples}/tour/tour.txt shows that, and the rest, in five minutes.
Ctrl-C stops it; what you made is kept.
"
    )
}

/// As a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    match path.chars().all(plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn lines_can_be_copied() {
        let text = text(
            "https://127.0.0.1:7443",
            Path::new("/home/eve's/kubeconfig"),
            &["eu".parse().expect("legal"), "us".parse().expect("legal")],
        );
        expect![[r#"
            deltaplane is ready

              address     https://127.0.0.1:7443
              kubeconfig  '/home/eve'\''s/kubeconfig'
              zones       eu, us

            Try, in another terminal:

              export KUBECONFIG='/home/eve'\''s/kubeconfig'
              kubectl get zones
              deltaplane examples write deltaplane-examples
              kubectl apply -f deltaplane-examples/synced-configmaps.yaml
              kubectl create configmap hello --from-literal=greeting=hi
              kubectl label configmap hello cross=yes
              kubectl --context eu wait configmap/hello --for=create --timeout=30s
              kubectl --context eu get configmap hello -o jsonpath='{.data.greeting}'
              kubectl get configmap hello

            What crosses to zones is what a SyncedKind says; deltaplane-examples/tour/tour.txt shows that, and the rest, in five minutes.
            Ctrl-C stops it; what you made is kept.
        "#]]
        .assert_eq(&text);
        assert_eq!(quoted("/tmp/a-b_c.d"), "/tmp/a-b_c.d");
    }
}
