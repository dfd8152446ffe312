//! What `up` prints when it is ready.

use std::path::Path;

use deltaplane_hub::Hub;

pub(crate) fn up(hub: &Hub) -> String {
    text(hub.url(), hub.kubeconfig())
}

fn text(url: &str, kubeconfig: &Path) -> String {
    let path = quoted(&kubeconfig.display().to_string());
    format!(
        "deltaplane is ready

  address     {url}
  kubeconfig  {path}

Try, in another terminal:

  export KUBECONFIG={path}
  kubectl get namespaces
  kubectl create configmap hello --from-literal=greeting=hi
  kubectl get configmap hello -o yaml
  kubectl api-resources

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
        );
        expect![[r#"
            deltaplane is ready

              address     https://127.0.0.1:7443
              kubeconfig  '/home/eve'\''s/kubeconfig'

            Try, in another terminal:

              export KUBECONFIG='/home/eve'\''s/kubeconfig'
              kubectl get namespaces
              kubectl create configmap hello --from-literal=greeting=hi
              kubectl get configmap hello -o yaml
              kubectl api-resources

            Ctrl-C stops it; what you made is kept.
        "#]]
        .assert_eq(&text);
        assert_eq!(quoted("/tmp/a-b_c.d"), "/tmp/a-b_c.d");
    }
}
