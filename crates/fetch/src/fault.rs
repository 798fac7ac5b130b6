//! Reasons why a request was not answered. See [`Fault`].

use std::io::{self, ErrorKind};

/// Error in words for operators.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Error with its causes, which those of hyper leave out. A cause that the text before it has already is not repeated. A
/// connection that the server has closed is called that, whatever was being read or written.
pub fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = || std::iter::successors(Some(error), |error| error.source());
    if causes().any(is_close) {
        return "the server closed the connection".to_owned();
    }
    let mut texts: Vec<String> = Vec::new();
    for text in causes().map(ToString::to_string) {
        if texts.last().is_none_or(|last| !last.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

/// True for the end of a connection that the other side has closed or reset.
fn is_close(error: &(dyn std::error::Error + 'static)) -> bool {
    let by_kind = |error: &io::Error| {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
    };
    error.downcast_ref().is_some_and(by_kind)
        || error.downcast_ref().is_some_and(|error: &hyper::Error| error.is_incomplete_message() || error.is_closed())
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
    }
}
