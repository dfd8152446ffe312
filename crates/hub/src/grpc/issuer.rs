//! Certificates for zones.

use std::sync::Arc;
use std::time::Duration;

use deltaplane_apiserver::TENANT;
use deltaplane_fleet::Fleet;
use deltaplane_runtime::Clock;
use deltaplane_runtime::identity::{
    SignError, ZoneGrant, ZoneKeyFingerprint, ZoneSubject, ZoneTokens,
};
use deltaplane_runtime::tls::Material;
use deltaplane_sync::ZoneName;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::CertificateRequest;
use tonic::{Request, Status};

use super::joining::{JoinBindings, PresentedToken};
use super::refused;

/// Signs what zones ask for, if they may.
pub(crate) struct Issuer {
    pub(crate) material: Material,
    pub(crate) tokens: Arc<ZoneTokens>,
    pub(crate) lifetime: Duration,
    pub(crate) clock: Clock,
    pub(crate) bindings: Arc<JoinBindings>,
}

// === impl Issuer ===

impl Issuer {
    /// A certificate for whoever has the join token of a zone, and has used it first.
    pub(super) async fn join(
        &self,
        fleet: &Fleet,
        request: &Request<CertificateRequest>,
    ) -> Result<String, Status> {
        let token = request.metadata().get("authorization");
        let token = token.and_then(|token| token.to_str().ok()?.strip_prefix("Bearer "));
        let token = token.ok_or_else(|| Status::unauthenticated("a join token is needed"))?;
        let grant = self.tokens.verify(token, self.clock.now());
        let ZoneGrant { zone, uid, id, .. } = grant.map_err(|error| {
            let text = format!(
                "the join token does not count: {error}; make another with: deltaplane token create"
            );
            Status::unauthenticated(text)
        })?;
        let zone: ZoneName = zone
            .parse()
            .map_err(|_| Status::unauthenticated("the join token names no legal zone"))?;
        let admitted = fleet.admit_token(&zone, &uid, &id);
        admitted.map_err(|error| refused(&error))?;
        let key = ZoneKeyFingerprint::of_request(&request.get_ref().csr);
        let key = key.map_err(|error| unsigned(&error))?;
        let (zone, uid) = (&zone, uid.as_str());
        let id = id.as_str();
        let presented = PresentedToken { zone, uid, id, key };
        self.bindings.bind(presented).await?;
        self.renew((zone, uid), &request.get_ref().csr)
    }

    /// A certificate for a zone that has proved who it is.
    pub(super) fn renew(
        &self,
        (zone, uid): (&ZoneName, &str),
        csr: &str,
    ) -> Result<String, Status> {
        let subject = ZoneSubject {
            zone: zone.to_string(),
            uid: uid.to_owned(),
            tenant: TENANT.to_owned(),
        };
        let now = self.clock.now();
        let signed = self.material.sign_zone(csr, &subject, self.lifetime, now);
        signed.map_err(|error| unsigned(&error))
    }
}

fn unsigned(error: &SignError) -> Status {
    match error {
        SignError::Serial | SignError::Issue(_) => Status::internal(error.to_string()),
        SignError::TooLong
        | SignError::Malformed
        | SignError::Signature
        | SignError::Key
        | SignError::Name { .. } => Status::invalid_argument(error.to_string()),
    }
}
