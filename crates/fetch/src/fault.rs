//! Reasons why a request was not answered. See [`Fault`].

use std::error::Error;
use std::io::{self, ErrorKind};

/// Error in words for operators.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Error with its causes, which errors of hyper leave out. A cause that the text before it has already is not repeated.
/// A connection that the server has closed is called that, whatever was being read or written.
pub fn reason(error: &(dyn Error + 'static)) -> String {
    if is_close(error) {
        return "the server closed the connection".to_owned();
    }
    let mut texts: Vec<String> = Vec::new();
    for text in causes(error).map(ToString::to_string) {
        if texts.last().is_none_or(|last| !last.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

/// Text of an error of h2, which gives none of its causes, for a connection that was closed without a GOAWAY.
const CLOSED: &str = "stream closed because of a broken pipe";

/// True for an error by the end of a connection that the server has closed or reset.
pub fn is_close(error: &(dyn Error + 'static)) -> bool {
    let by_kind = |error: &io::Error| {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
    };
    causes(error).any(|cause| {
        cause.downcast_ref().is_some_and(by_kind)
            || cause
                .downcast_ref()
                .is_some_and(|cause: &hyper::Error| cause.is_incomplete_message() || cause.is_closed())
            || cause.to_string() == CLOSED
    })
}

/// An error, its cause, the cause of that, and so on.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct Chain(&'static str, Option<Box<Chain>>);

    impl fmt::Display for Chain {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Chain {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_ref().map(|cause| &**cause as _)
        }
    }

    #[test]
    fn a_cause_that_is_there_already_is_not_repeated() {
        let chain = ["watch: body: eof", "body: eof", "eof", "reset by peer"].into_iter().rev();
        let chain = chain.fold(None, |cause, text| Some(Box::new(Chain(text, cause)))).expect("four");
        assert_eq!(reason(&*chain), "watch: body: eof: reset by peer");
        let closed = Chain("body", Some(Box::new(Chain(CLOSED, None))));
        assert_eq!(reason(&closed), "the server closed the connection");
    }
}
