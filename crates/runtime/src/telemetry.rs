//! Structured logs on stderr: for people by default, as JSON lines on request.

use std::fmt;
use std::io;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// How lines look.
    pub format: Format,
    /// Which events are logged.
    pub filter: Filter,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON object each.
    Json,
}

/// Which events are logged: a level, or directives such as `info,deltaplane_store=debug`.
// Invariant: `EnvFilter` accepts the text; only `FromStr` builds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(String);

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Not what tracing calls a directive.
    #[error("{text:?} is not a log level or a list of target=level")]
    Filter {
        /// What was given.
        text: String,
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// A word that is no level. For tracing it would be the name of a target, and everything else
    /// would not be logged.
    #[error(
        "{word:?} is not a log level: use off, error, warn, info, debug or trace, or target=level"
    )]
    Level {
        /// What was given.
        word: String,
    },
    /// Another subscriber is in place.
    #[error("failed to install the log subscriber")]
    Install(#[from] tracing_subscriber::util::TryInitError),
}

// === impl Telemetry ===

impl Telemetry {
    /// Sets up logging for the whole process, panics included. Once only.
    pub fn install(&self) -> Result<(), TelemetryError> {
        let Self { format, filter } = self;
        let builder = tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .with_env_filter(EnvFilter::new(&filter.0));
        match format {
            Format::Human => builder.with_ansi(false).finish().try_init()?,
            Format::Json => builder.json().flatten_event(true).finish().try_init()?,
        }
        std::panic::set_hook(Box::new(|panic| {
            let text = panic.payload_as_str().unwrap_or("no message");
            let place = panic.location().map(ToString::to_string);
            let backtrace = std::backtrace::Backtrace::capture();
            tracing::error!(place, %backtrace, "panic: {text}");
        }));
        Ok(())
    }
}

// === impl Filter ===

impl Default for Filter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl FromStr for Filter {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, TelemetryError> {
        let mut words = text.split(',').map(str::trim);
        let is_level = |word: &str| word.is_empty() || word.parse::<LevelFilter>().is_ok();
        if let Some(word) = words.find(|word| !word.contains('=') && !is_level(word)) {
            let word = word.to_owned();
            return Err(TelemetryError::Level { word });
        }
        match EnvFilter::try_new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(source) => Err(TelemetryError::Filter {
                text: text.to_owned(),
                source,
            }),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_parsed() {
        let check = |text: &str, valid: bool| {
            let parsed = text.parse::<Filter>().map(|filter| filter.to_string());
            assert_eq!(parsed.ok(), valid.then(|| text.to_owned()));
        };
        check("debug", true);
        check("info,deltaplane_store=trace", true);
        check("info,deltaplane_store=loud", false);
        check("OFF", true);
        check("wran", false);
        check("info, deltaplane_store", false);
    }
}
