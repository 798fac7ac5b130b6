//! Tests of answers and refusals.
