//! Tests of logs as a whole: lines that programs wrote, lines that are written and read back, any text.

mod any;
mod real;
mod remedies;
mod stream;
mod written;
