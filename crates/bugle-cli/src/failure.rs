//! Errors as a person or a program reads them: what is wrong, the value, the next step, and whether a write may have happened.

use crate::exit::Exit;
use bugle::{Error, Outcome};
use std::io::Write as _;

/// Why the command could not be carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    sentence: String,
    outcome: Outcome,
}

impl Failure {
    /// The caller asked for something that cannot be.
    pub(crate) fn user(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::User, sentence: sentence.into(), outcome: Outcome::Refused }
    }

    /// There is nothing to do it to.
    pub(crate) fn nothing(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Nothing, sentence: sentence.into(), outcome: Outcome::Refused }
    }

    /// The database or this machine could not do it.
    pub(crate) fn server(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Server, sentence: sentence.into(), outcome: Outcome::Refused }
    }

    /// It may have been done or not.
    pub(crate) fn unknown(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Server, sentence: sentence.into(), outcome: Outcome::Unknown }
    }

    /// The operating system refused to `act`.
    pub(crate) fn system(act: &str, error: &std::io::Error) -> Self {
        Self::server(format!("cannot {act}: {error}"))
    }

    /// Somebody ended the command while it was at work.
    pub(crate) fn interrupted(signal: u8) -> Self {
        Self {
            exit: Exit::Signal(signal),
            sentence: "interrupted before the answer came; what was asked may have been done or not"
                .to_owned(),
            outcome: Outcome::Unknown,
        }
    }

    /// Was it the database, or this machine, that could not do it?
    pub(crate) fn is_of_the_server(&self) -> bool {
        self.exit == Exit::Server
    }

    /// The same failure, with what had been done before it.
    pub(crate) fn after(mut self, done: &str) -> Self {
        self.sentence = format!("{} ({done})", self.sentence);
        self
    }

    /// The same failure in other words, which say more.
    pub(crate) fn saying(mut self, sentence: String) -> Self {
        self.sentence = sentence;
        self
    }

    /// Tells it on standard error.
    pub(crate) fn report(&self, as_json: bool) -> Exit {
        if self.exit == Exit::ClosedPipe {
            return self.exit; // nobody reads
        }
        let mut stderr = std::io::stderr().lock();
        // Nothing is left to tell it to when even this fails.
        let _ = if as_json {
            writeln!(stderr, "{}", self.as_json())
        } else {
            writeln!(stderr, "error: {}", self.sentence)
        };
        self.exit
    }

    fn as_json(&self) -> serde_json::Value {
        let outcome = match self.outcome {
            Outcome::Refused => "refused",
            Outcome::Unknown => "unknown",
        };
        serde_json::json!({ "error": self.sentence, "outcome": outcome, "exit_code": self.exit.code() })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Invalid { .. } | Error::Payload { .. } => Exit::User,
            Error::NoJob { .. } => Exit::Nothing,
            Error::Refused { code, .. } => of_code(code),
            _ => Exit::Server,
        };
        Self { exit, outcome: error.outcome(), sentence: error.to_string() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Whose fault a SQLSTATE is.
fn of_code(code: &str) -> Exit {
    match code.get(..2).unwrap_or_default() {
        "28" => Exit::Auth,                                       // not let in
        _ if code == "42501" => Exit::Auth,                       // not let do it
        _ if code == "BGL04" => Exit::User,                       // the wrong verb for what the queue holds
        _ if code == "BGL10" || code == "BGL13" => Exit::User, // a version that is another; a step that is not in a state for it
        _ if code == "BGL14" => Exit::User,                    // a number or a key that is another's
        _ if code == "BGL11" || code == "BGL12" => Exit::Nothing, // no such definition; no such run or step
        "22" | "23" | "54" | "3D" => Exit::User, // values, constraints, limits, no such database
        _ => Exit::Server,
    }
}

impl From<bugle::pg::embedded::Error> for Failure {
    fn from(error: bugle::pg::embedded::Error) -> Self {
        use bugle::pg::embedded::Error as E;
        let exit = match &error {
            E::NotOurs { .. } | E::BadBinaries { .. } | E::NoHome => Exit::User,
            _ => Exit::Server,
        };
        Self { exit, sentence: error.to_string(), outcome: Outcome::Refused }
    }
}

impl From<bugle::pg::migrate::Error> for Failure {
    fn from(error: bugle::pg::migrate::Error) -> Self {
        Error::from(error).into()
    }
}

/// A query of the CLI's own, which only reads.
impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let exit = match &error {
            sqlx::Error::Database(answer) => of_code(answer.code().unwrap_or_default().as_ref()),
            _ => Exit::Server,
        };
        Self {
            exit,
            sentence: format!("the database could not be asked: {error}"),
            outcome: Outcome::Refused,
        }
    }
}

/// Writing the answer failed.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self { exit: Exit::ClosedPipe, sentence: String::new(), outcome: Outcome::Refused };
        }
        Self::system("write the answer", &error)
    }
}

/// What clap found wrong, or the help that was asked for.
pub(crate) fn of_arguments(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Ok;
    }
    // The options could not be read, so whether JSON was asked for is read from the words themselves.
    let words: Vec<_> = std::env::args_os().collect();
    let as_json = words.iter().any(|word| word == "--output=json" || word == "-ojson")
        || words.windows(2).any(|pair| (pair[0] == "--output" || pair[0] == "-o") && pair[1] == "json");
    if as_json {
        let text = error.render().to_string();
        let sentence = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        return Failure::user(sentence.replace("\n ", "")).report(true);
    }
    let _ = error.print();
    Exit::User
}
