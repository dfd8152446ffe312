//! Answers that are known before the request's body was read must arrive all the same.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_client::request;
use deltaplane_plane::PlaneConfig;
use http::{Method, Request};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Running, config, directory, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CHUNK: usize = 64 << 10;

/// A request, and what it is answered.
struct Case {
    method: Method,
    path: &'static str,
    header: (&'static str, &'static str),
    size: usize,
    code: u16,
}

/// As the admin, but with a token as nobody.
async fn connect(hub: &Running, data: &Path, case: &Case, protocol: &[u8]) -> TlsStream<TcpStream> {
    let pem = |name: &str| fs::read(data.join("pki").join(name)).expect("made");
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&pem("ca.crt")).expect("PEM");
    roots.add(authority).expect("an authority");
    let admin = pem("admin.pem");
    let chain = vec![CertificateDer::from_pem_slice(&admin).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(&admin).expect("PEM");
    let config = rustls::ClientConfig::builder().with_root_certificates(roots);
    let mut config = match case.header.0 {
        "authorization" => config.with_no_client_auth(),
        _ => config.with_client_auth_cert(chain, key).expect("usable"),
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    let address = hub.url.trim_start_matches("https://");
    let stream = TcpStream::connect(address).await.expect("connected");
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.expect("a handshake")
}

/// The code and the reason, after all of the body was sent.
async fn ask_http1(hub: &Running, data: &Path, case: &Case) -> (u16, Value) {
    let (mut reader, mut writer) = tokio::io::split(connect(hub, data, case, b"http/1.1").await);
    let (name, value) = case.header;
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: hub\r\n{name}: {value}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        case.method, case.path, case.size
    );
    let send = async {
        writer.write_all(head.as_bytes()).await.expect("sent");
        for _ in 0..case.size / CHUNK {
            writer.write_all(&[b' '; CHUNK]).await.expect("sent");
        }
        let rest = vec![b' '; case.size % CHUNK];
        writer.write_all(&rest).await.expect("sent");
    };
    let mut answer = Vec::new();
    let (_, read) = tokio::join!(send, reader.read_to_end(&mut answer));
    // Not every server says goodbye.
    let _ = read;
    let text = String::from_utf8(answer).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let code = head.split(' ').nth(1).expect("a code");
    let status: Value = serde_json::from_str(body).expect("a whole body");
    (code.parse().expect("a code"), status["code"].clone())
}

/// The same, frame by frame.
async fn ask_http2(hub: &Running, data: &Path, case: &Case) -> (u16, Value) {
    let stream = connect(hub, data, case, b"h2").await;
    let (sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let group = hub.tasks.group("client");
    group.spawn(async move {
        let _ = connection.await;
    });
    let mut sender = sender.ready().await.expect("ready");
    let request = Request::builder()
        .method(case.method.clone())
        .uri(format!("https://hub{}", case.path))
        .header(case.header.0, case.header.1)
        .body(())
        .expect("a request");
    let (answer, mut body) = sender.send_request(request, false).expect("sent");
    let send = async {
        let mut left = case.size;
        while left > 0 {
            body.reserve_capacity(left.min(CHUNK));
            let room = std::future::poll_fn(|cx| body.poll_capacity(cx)).await;
            let room = room.expect("the stream is open").expect("no reset");
            let part = Bytes::from(vec![b' '; room.min(left)]);
            left -= part.len();
            body.send_data(part, left == 0).expect("no reset");
        }
    };
    let receive = async {
        let mut answer = answer.await.expect("answered");
        let mut bytes = Vec::new();
        while let Some(part) = answer.body_mut().data().await {
            let part = part.expect("a whole body");
            let flow = answer.body_mut().flow_control();
            flow.release_capacity(part.len()).expect("received");
            bytes.extend_from_slice(&part);
        }
        let status: Value = serde_json::from_slice(&bytes).expect("a whole body");
        (answer.status().as_u16(), status["code"].clone())
    };
    tokio::join!(send, receive).1
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_arrive_whatever_is_still_on_its_way() {
    let directory = directory();
    let data = directory.path().join("data");
    let mut config: PlaneConfig = config(&data);
    config.requests.bodies = 0;
    let hub = start(config).await;
    let rbac = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "greedy"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "greedy"}],
    });
    let path = format!("/apis/{rbac}/v1/clusterrolebindings");
    let created: Result<Value, _> = request::create(&hub.client, &path, &binding).await;
    created.expect("created");
    let none = ("x-none", "");
    let cases = [
        (Method::POST, MAPS, ("authorization", "Bearer bad"), 401),
        (Method::POST, MAPS, ("impersonate-user", "eve"), 403),
        (Method::POST, MAPS, ("impersonate-user", "greedy"), 429),
        (Method::POST, "/nowhere", none, 405),
        (Method::PUT, "/api/v1/namespaces", none, 405),
        (Method::POST, "/api/v1//x", none, 400),
        (Method::POST, MAPS, none, 413),
    ];
    for (method, path, header, code) in cases {
        for size in [200_000, 4_000_000] {
            // What is not too large is only too empty.
            let code = match (code, size) {
                (413, 200_000) => 400,
                (code, _) => code,
            };
            let case = Case {
                method: method.clone(),
                path,
                header,
                size,
                code,
            };
            let expected = (case.code, json!(case.code));
            assert_eq!(ask_http1(&hub, &data, &case).await, expected, "{path}");
            assert_eq!(ask_http2(&hub, &data, &case).await, expected, "{path}");
        }
    }
    hub.stop().await;
}
