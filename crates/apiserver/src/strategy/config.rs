//! ConfigMaps, Secrets and Leases.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deltaplane_api::field::{Error, Path};
use deltaplane_api::names;
use serde_json::{Value, json};

use super::{GENERIC, Strategy};
use crate::value;

/// The most that one ConfigMap or Secret may hold.
const MAX_SIZE: usize = 1 << 20;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(crate) static CONFIG_MAP: Strategy = Strategy {
    validate: Some(validate_config_map),
    ..GENERIC
};

pub(crate) static SECRET: Strategy = Strategy {
    prepare_create: Some(merge_string_data),
    prepare_update: Some(|new, old| {
        merge_string_data(new);
        // The type cannot be unset: left out means unchanged.
        if value::text(new, "type").is_empty() {
            value::set(new, "type", old["type"].clone());
        }
    }),
    validate: Some(validate_secret),
    ..GENERIC
};

pub(crate) static LEASE: Strategy = Strategy {
    validate: Some(validate_lease),
    create_on_update: true,
    unconditional_update: false,
    ..GENERIC
};

fn validate_config_map(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, content) in value::entries(new, field) {
            let path = Path::new(field).key(key);
            check_key(&path, key, &mut errors);
            if field == "binaryData" && !value::at(new, "data")[key].is_null() {
                let detail = "duplicate of key present in data";
                errors.push(Error::invalid(path, key, detail));
            }
            size += content.as_str().map_or(0, |text| content_size(field, text));
        }
    }
    if size > MAX_SIZE {
        errors.push(Error::too_long(Path::root(), MAX_SIZE));
    }
    if let Some(old) = old {
        check_immutable(new, old, &["data", "binaryData"], &mut errors);
    }
    errors
}

fn content_size(field: &str, text: &str) -> usize {
    match field {
        "binaryData" => text.len() / 4 * 3,
        _ => text.len(),
    }
}

fn check_key(path: &Path, key: &str, errors: &mut Vec<Error>) {
    let faults = names::config_key(key).into_iter();
    errors.extend(faults.map(|fault| Error::invalid(path.clone(), key, fault)));
}

fn check_immutable(new: &Value, old: &Value, fields: &[&str], errors: &mut Vec<Error>) {
    if old["immutable"] != json!(true) {
        return;
    }
    if new["immutable"] != json!(true) {
        errors.push(Error::forbidden(Path::new("immutable"), IMMUTABLE));
    }
    for field in fields.iter().filter(|field| new[**field] != old[**field]) {
        errors.push(Error::forbidden(Path::new(field), IMMUTABLE));
    }
}

/// `stringData` is for writing only: it becomes `data`.
fn merge_string_data(secret: &mut Value) {
    let strings = value::take(secret, "stringData");
    let Some(strings) = strings.as_object().filter(|strings| !strings.is_empty()) else {
        return;
    };
    let Some(data) = value::map_mut(secret, "data") else {
        return;
    };
    for (key, text) in strings {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        data.insert(key.clone(), json!(encoded));
    }
}

fn validate_secret(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, content) in value::entries(new, "data") {
        check_key(&Path::new("data").key(key), key, &mut errors);
        size += content
            .as_str()
            .map_or(0, |text| content_size("binaryData", text));
    }
    if size > MAX_SIZE {
        errors.push(Error::too_long(Path::new("data"), MAX_SIZE));
    }
    check_secret_type(new, &mut errors);
    if let Some(old) = old {
        super::immutable("type", new, old, &mut errors);
        check_immutable(new, old, &["data"], &mut errors);
    }
    errors
}

/// What the well-known types of Secrets must hold.
fn check_secret_type(secret: &Value, errors: &mut Vec<Error>) {
    let data = value::at(secret, "data");
    let mut require = |key: &str| {
        if data[key].is_null() {
            errors.push(Error::required(Path::new("data").key(key), ""));
        }
    };
    match value::text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if value::at(secret, "metadata.annotations")[key]
                .as_str()
                .is_none_or(str::is_empty)
            {
                let path = Path::new("metadata").child("annotations").key(key);
                errors.push(Error::required(path, ""));
            }
        }
        "kubernetes.io/tls" => {
            require("tls.crt");
            require("tls.key");
        }
        "kubernetes.io/ssh-auth" => require("ssh-privatekey"),
        "kubernetes.io/basic-auth" if data["username"].is_null() && data["password"].is_null() => {
            require("username");
            require("password");
        }
        "kubernetes.io/dockercfg" => require(".dockercfg"),
        "kubernetes.io/dockerconfigjson" => check_docker_config(data, errors),
        _ => {}
    }
}

fn check_docker_config(data: &Value, errors: &mut Vec<Error>) {
    const KEY: &str = ".dockerconfigjson";
    let path = Path::new("data").key(KEY);
    let Some(text) = data[KEY].as_str() else {
        errors.push(Error::required(path, ""));
        return;
    };
    let decoded = STANDARD.decode(text).ok();
    let json = decoded.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    if json.is_none() {
        errors.push(Error::invalid(
            path,
            "<secret contents redacted>",
            "not valid JSON",
        ));
    }
}

fn validate_lease(lease: &Value, _old: Option<&Value>) -> Vec<Error> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    let check = |field: &str, min: i64, words: &str, errors: &mut Vec<Error>| {
        let number = lease["spec"][field].as_i64().filter(|number| *number < min);
        if let Some(number) = number {
            errors.push(Error::invalid(spec.child(field), number, words));
        }
    };
    check(
        "leaseDurationSeconds",
        1,
        "must be greater than 0",
        &mut errors,
    );
    check(
        "leaseTransitions",
        0,
        "must be greater than or equal to 0",
        &mut errors,
    );
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(errors: &[Error]) -> Vec<String> {
        errors.iter().map(Error::to_string).collect()
    }

    #[test]
    fn string_data_becomes_data() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"a": "new", "b": "y"}});
        merge_string_data(&mut secret);
        assert_eq!(secret, json!({"data": {"a": "bmV3", "b": "eQ=="}}));
    }

    #[test]
    fn immutable_objects_keep_their_data_and_their_flag() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let check = |new: Value, expected: &[&str]| {
            assert_eq!(texts(&validate_config_map(&new, Some(&old))), expected);
        };
        check(old.clone(), &[]);
        check(
            json!({"data": {"a": "2"}}),
            &[
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ],
        );
    }

    #[test]
    fn keys_are_checked_and_unique() {
        let map = json!({"data": {"a": "1", "b c": "2"}, "binaryData": {"a": "eA=="}});
        let errors = texts(&validate_config_map(&map, None));
        assert_eq!(errors.len(), 2);
        assert!(
            errors[0].starts_with("data[b c]: Invalid value: \"b c\""),
            "{errors:?}"
        );
        assert!(errors[1].starts_with("binaryData[a]: Invalid value: \"a\": duplicate"));
    }
}
