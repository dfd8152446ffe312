//! Functions and values of the host: typed, costed, allowed to wait, never copied.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deltaplane_expr::cost::Cost;
use deltaplane_expr::env::{self, Overload};
use deltaplane_expr::host::{Host, HostFunction, HostList};
use deltaplane_expr::types::{Signature, Type};
use deltaplane_expr::value::{List, Map};
use deltaplane_expr::{
    Absent, Bindings, Budget, Decl, Eval, Fault, Meter, ObjectType, Path, Step, Value, compile,
};

/// A hundred thousand zones, of which the first thousand are ready.
struct Zones {
    read: AtomicUsize,
    items: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    name: String,
    ready: bool,
}

impl fmt::Debug for Zones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} zones", self.items.len())
    }
}

impl HostList for Zones {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn get(&self, index: usize) -> Option<Value<'_>> {
        self.read.fetch_add(1, Ordering::Relaxed);
        self.items.get(index).map(|zone| Value::Host(zone))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Host for Zone {
    fn ty(&self) -> Type {
        zone_type()
    }

    fn field(&self, name: &str) -> Result<Option<Value<'_>>, Box<Fault>> {
        Ok((name == "name").then(|| Value::borrowed(&self.name)))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// What expressions see of a zone.
fn zone_type() -> Type {
    let name = (
        "name".to_owned(),
        Decl::of_type(Type::String, Absent::Fails),
    );
    Type::Object(ObjectType::new("fleet.Zone", [name]))
}

/// `zone.ready()`: waits for zones that are not.
#[derive(Debug)]
struct Ready;

impl HostFunction for Ready {
    fn call<'a>(&self, _: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, Box<Fault>> {
        let zone = match args {
            [Value::Host(host)] => host.as_any().and_then(|any| any.downcast_ref::<Zone>()),
            _ => None,
        };
        match zone {
            Some(zone) if zone.ready => Ok(Value::Bool(true)),
            Some(zone) => Err(Box::new(Fault::Waiting(Path {
                root: "zones".to_owned(),
                steps: vec![Step::Field(zone.name.clone())],
            }))),
            None => Err(Box::new(Fault::Stopped(deltaplane_expr::Stopped::Steps))),
        }
    }
}

#[test]
fn a_large_collection_is_read_as_far_as_needed() {
    let signature = Signature {
        member: true,
        params: vec![zone_type()],
        result: Type::Bool,
    };
    let ready = Overload::host(
        "ready",
        "zone_ready",
        signature,
        Cost::Fixed(5),
        Arc::new(Ready),
    );
    let zones_type = Type::list(zone_type());
    let env = env::gate()
        .overload(ready)
        .build()
        .with_variables([("zones".to_owned(), Decl::of_type(zones_type, Absent::Fails))]);
    let items = (0..100_000).map(|number| Zone {
        name: format!("z{number}"),
        ready: number < 1_000,
    });
    let zones = Zones {
        read: AtomicUsize::new(0),
        items: items.collect(),
    };
    let eval = |source: &str| {
        zones.read.store(0, Ordering::Relaxed);
        let program = compile(source, &env).expect("it checks");
        let mut bindings = Bindings::new(&env);
        bindings.set(
            env.slot("zones").expect("declared"),
            Value::List(List::Host(&zones)),
        );
        let told = match program.eval(&bindings, Budget::STEPS_ONLY) {
            Eval::Value(Value::Bool(value)) => value.to_string(),
            Eval::Value(Value::Int(value)) => value.to_string(),
            Eval::Waiting(path) => format!("waiting for {path}"),
            other @ (Eval::Value(_) | Eval::Failed(_) | Eval::Stopped(_)) => format!("{other:?}"),
        };
        (told, zones.read.load(Ordering::Relaxed))
    };
    assert_eq!(eval("zones.size()"), ("100000".to_owned(), 0));
    assert_eq!(eval("zones.exists(z, z.ready())"), ("true".to_owned(), 1));
    assert_eq!(eval("zones[7].ready()"), ("true".to_owned(), 1));
    assert_eq!(
        eval("zones[2000].ready()"),
        ("waiting for zones.z2000".to_owned(), 1)
    );
    assert_eq!(
        eval("zones.exists(z, z.ready() && z.name == 'z500')"),
        ("true".to_owned(), 501)
    );
}

/// An object with something of the host's beside it.
#[derive(Debug)]
struct Watched {
    object: serde_json::Map<String, serde_json::Value>,
    decl: Decl,
}

impl Host for Watched {
    fn ty(&self) -> Type {
        Type::Dyn
    }

    fn field(&self, name: &str) -> Result<Option<Value<'_>>, Box<Fault>> {
        Ok((name == "@healthy").then_some(Value::Bool(true)))
    }

    fn object(&self) -> Option<Map<'_>> {
        Some(Map::Json(&self.object, &self.decl))
    }
}

/// What the host knows of a value.
#[derive(Debug)]
struct Healthy;

impl HostFunction for Healthy {
    fn call<'a>(&self, _: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, Box<Fault>> {
        match args {
            [Value::Host(host)] => Ok(host.field("@healthy")?.unwrap_or(Value::Null)),
            _ => Ok(Value::Null),
        }
    }
}

#[test]
fn a_value_of_the_host_is_read_like_the_object_it_stands_for() {
    let signature = Signature::parse("dyn.() -> dyn").expect("a signature");
    let healthy = Overload::host(
        "healthy",
        "healthy",
        signature,
        Cost::Unit,
        Arc::new(Healthy),
    );
    let env = env::gate().overload(healthy).build();
    let env = env.with_dynamic(&["app", "gone"], Absent::Waits);
    let object = serde_json::json!({"spec": {"tier": "gold", "ports": [80]}});
    let app = Watched {
        object: object.as_object().cloned().unwrap_or_default(),
        decl: Decl::dynamic(Absent::Waits).clone(),
    };
    for (source, expected) in [
        ("app.spec.tier == 'gold'", "true"),
        ("app['spec'].ports[0] == 80", "true"),
        ("[app][0].spec.ports.size() == 1", "true"),
        ("has(app.status)", "false"),
        ("app.?status.?phase.orValue('none') == 'none'", "true"),
        ("[app].all(a, a.healthy() && has(a.spec))", "true"),
        ("app.healthy()", "true"),
        ("app.spec.healthy() == null", "true"),
        ("app == app && app != [app.spec][0]", "true"),
        ("app.status.phase == 'up'", "waiting for app.status"),
        ("[app].exists(a, a.status.up)", "waiting for ?.status"),
        ("gone.spec.tier == 'gold'", "waiting for app.status.tier"),
        ("gone.spec.tier == 'gold' || app.healthy()", "true"),
    ] {
        let program = compile(source, &env).expect("it checks");
        let mut bindings = Bindings::new(&env);
        bindings.set(env.slot("app").expect("declared"), Value::Host(&app));
        let elsewhere = Fault::Waiting(Path {
            root: "app".to_owned(),
            steps: ["status", "tier"]
                .map(|step| Step::Field(step.to_owned()))
                .into(),
        });
        bindings.set_fault(env.slot("gone").expect("declared"), Arc::new(elsewhere));
        let told = match program.eval(&bindings, Budget::default()) {
            Eval::Value(Value::Bool(value)) => value.to_string(),
            Eval::Waiting(path) => format!("waiting for {path}"),
            other @ (Eval::Value(_) | Eval::Failed(_) | Eval::Stopped(_)) => format!("{other:?}"),
        };
        assert_eq!(told, expected, "{source}");
    }
}
