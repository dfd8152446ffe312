//! What the hub asks, and the zone answers.

use std::convert::Infallible;

use deltaplane_sync::QUERY;
use deltaplane_sync_grpc::proto::deltaplane::sync::v1::Welcome;
use deltaplane_sync_grpc::receiving;
use tokio::sync::mpsc;
use tonic::Code;

use super::{Agent, LASTING, LinkError, OUTBOX, with_session};
use crate::link::Client;

// === impl Agent ===

impl Agent {
    /// Answers what the hub asks, if it can ask. That this fails is no reason to end the rest.
    pub(super) async fn answer(&self, client: Client, welcome: &Welcome) -> Infallible {
        if welcome.features.iter().any(|feature| feature == QUERY) {
            self.answer_while_asked(client, welcome.session).await;
        }
        std::future::pending().await
    }

    /// Ends when the hub says that it cannot ask after all.
    async fn answer_while_asked(&self, client: Client, session: u64) {
        let mut failures = 0;
        loop {
            let began = self.pace.clock.elapsed();
            let ended = self.query(client.clone(), session).await;
            let lasted = self.pace.clock.elapsed().saturating_sub(began);
            failures = match lasted > LASTING {
                true => 1,
                false => failures + 1,
            };
            match ended {
                Err(LinkError::Status(status)) if status.code() == Code::Unimplemented => return,
                Err(error) => log_query(&error, failures),
                Ok(()) => log_query(&LinkError::Ended, failures),
            }
            self.pace.rest(failures, None).await;
        }
    }

    async fn query(&self, client: Client, session: u64) -> Result<(), LinkError> {
        let link = self.membership.link();
        let mut client = link.compress_received(link.compress_sent(client));
        let (out, answers) = mpsc::channel(OUTBOX);
        let answer = client.query(with_session(receiving(answers), session));
        let questions = answer.await?.into_inner();
        self.queries.serve(questions, out).await
    }
}

fn log_query(error: &LinkError, failures: u32) {
    let error = error as &dyn std::error::Error;
    tracing::debug!(
        error,
        failures,
        "the hub asks no more; opening the stream again"
    );
}
