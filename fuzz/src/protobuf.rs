//! Bodies as kubectl sends them: what can be decoded can be encoded, and decoded to the same.
#![no_main]

use deltaplane_apiserver::{protobuf, typepack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let tables = typepack::load().tables();
    // Most of what is tried should get beyond the first four bytes.
    let body = [b"k8s\0", input].concat();
    let Ok(decoded) = protobuf::decode(tables, &body, None) else {
        return;
    };
    if let Ok(encoded) = protobuf::encode(tables, &decoded.value) {
        let again = protobuf::decode(tables, &encoded, None).expect("what was encoded decodes");
        let thrice = protobuf::encode(tables, &again.value).expect("and encodes");
        assert_eq!(encoded, thrice);
    }
});
