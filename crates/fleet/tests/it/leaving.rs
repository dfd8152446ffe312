//! What is kept of zones that are gone.

use std::collections::BTreeSet;

use deltaplane_fleet::HandshakeError;
use deltaplane_sync::{Epoch, Hello, PROTOCOLS};

use crate::status;
use crate::world::{World, zone};

fn hello() -> Hello {
    Hello {
        zone: zone("a"),
        product: "0".to_owned(),
        protocols: PROTOCOLS,
        features: BTreeSet::new(),
        epoch: Epoch("e".into()),
        followed: None,
        mirrored_kinds: BTreeSet::new(),
    }
}

/// A zone is deleted, or another one is made in its place.
#[tokio::test]
async fn nothing_is_kept_of_a_zone_that_is_gone() {
    let zones = "fleet.deltaplane.io/zones";
    let world = World::new().await;
    let (client, _patches) = status::api(0, Vec::new());
    world.attach(client);
    let name = zone("a");
    for uid in ["1", "2", "3"] {
        world.put(zones, &status::zone("a", uid)).await;
        let opened = world.fleet.handshake((&name, uid), &hello());
        let (session, _) = opened.expect("there is such a zone");
        assert!(world.fleet.session_of(&name).is_some());
        match uid {
            "1" => world.put(zones, &status::zone("a", "2")).await,
            _ => world.delete(zones, &status::zone("a", uid)).await,
        }
        session.ended().wait().await;
        assert!(world.fleet.session_of(&name).is_none(), "{uid}");
        let again = world.fleet.handshake((&name, uid), &hello()).map(drop);
        let expected = match uid {
            "1" => HandshakeError::Earlier(name.clone()),
            _ => HandshakeError::Unknown(name.clone()),
        };
        assert_eq!(again, Err(expected));
    }
}
