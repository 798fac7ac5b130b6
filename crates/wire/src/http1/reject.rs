//! Reasons to refuse a message, each with a status and a row.

use std::fmt;

macro_rules! rejects {
    ($($name:ident $status:literal $text:literal,)*) => {
        /// Reason for which a message was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reject { $($name,)* }

        impl Reject {
            /// All reasons, in the order of the rows.
            pub const ALL: &[Reject] = &[$(Reject::$name,)*];

            /// Status of the response to a refused request.
            pub fn status(self) -> u16 {
                match self { $(Reject::$name => $status,)* }
            }
        }

        impl fmt::Display for Reject {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Reject::$name => $text,)* })
            }
        }
    };
}

// Name, status, text. The status is for requests; a refused response becomes a 502.
rejects! {
    BareLf 400 "a line ends with a bare LF",
    Malformed 400 "the head is malformed",
    Folded 400 "a field is folded onto the next line",
    Version 505 "the HTTP version is not supported",
    Target 400 "the request target is malformed",
    Connect 501 "CONNECT is not supported",
    Protocol 501 "a tunnel for a protocol other than websocket",
    HeadTooLarge 431 "the head is over the size limit",
    TooManyFields 431 "the head has too many fields",
    HostMissing 400 "Host is missing",
    HostRepeated 400 "Host is repeated",
    HostMalformed 400 "Host is malformed",
    LengthAndChunked 400 "both Content-Length and Transfer-Encoding",
    LengthRepeated 400 "Content-Length is repeated",
    SameLengthRepeated 400 "the same Content-Length is repeated",
    LengthMalformed 400 "Content-Length is not a number",
    TransferEncoding 501 "a transfer coding other than chunked alone",
    ChunkedRepeated 400 "Transfer-Encoding: chunked is repeated",
    NotChunkedLast 400 "the last transfer coding is not chunked",
    Identity 400 "the transfer coding identity",
    TransferEncodingIn10 400 "Transfer-Encoding in HTTP/1.0",
    Nominated 400 "Connection names more than 32 fields",
    MaxForwards 400 "Max-Forwards is not a number, or is repeated",
    Expectation 417 "an expectation other than 100-continue",
    ChunkPadding 400 "white space after the chunk size",
    Chunk 400 "a chunk is malformed",
    Trailer 400 "a trailer field is malformed or not allowed there",
    TrailersTooLarge 431 "the trailers are over 16 KiB",
    SwitchNotAsked 400 "a 101 that the client did not request",
    InterimTooMany 400 "more than 16 interim responses (1xx) before the final one",
}

impl std::error::Error for Reject {}
