//! Keys of work and of its distributions.

use super::row::{DAY, H, S, key, required, with_default};
use evenkeel_config::tables::{Kind, Table};

/// Table of the distributions that durations are drawn from.
pub(super) static WORK: Table = Table {
    path: "work",
    help: "A duration, or a distribution to draw it from: exactly one key. A plain duration is `constant`.",
    inherits: false,
    keys: &[
        key("constant", Kind::Duration { min: 0, max: DAY, off: false }, "none", "Constant."),
        key("exponential", Kind::Duration { min: 1, max: DAY, off: false }, "none", "Exponential, with this mean."),
        key("uniform", Kind::Table(&UNIFORM), "none", "Uniform over whole steps."),
        key("normal", Kind::Table(&NORMAL), "none", "Normal, redrawn while negative."),
        key("lognormal", Kind::Table(&LOGNORMAL), "none", "Log-normal."),
        key("pareto", Kind::Table(&PARETO), "none", "Pareto between two bounds."),
    ],
};

static UNIFORM: Table = Table {
    path: "work.uniform",
    help: "Every whole multiple of `step` from `min` to `max` is equally likely.",
    inherits: false,
    keys: &[
        with_default("min", Kind::Int { min: 0, max: 1_000_000 }, "0", "Minimum, in steps."),
        required("max", Kind::Int { min: 0, max: 1_000_000 }, "99", "Maximum, in steps."),
        with_default("step", Kind::Duration { min: 1, max: H, off: false }, "\"1ms\"", "Length of a step."),
        with_default(
            "late",
            Kind::Duration { min: 0, max: S, off: false },
            "\"0s\"",
            "Maximum delay of a timer. A uniform time from 0 to this is added.",
        ),
    ],
};

static NORMAL: Table = Table {
    path: "work.normal",
    help: "Normal, redrawn while negative. The mean is above `mean` if `deviation` is large.",
    inherits: false,
    keys: &[
        required("mean", Kind::Duration { min: 1, max: DAY, off: false }, "\"10ms\"", "Mean before redrawing."),
        required(
            "deviation",
            Kind::Duration { min: 1, max: DAY, off: false },
            "\"10ms\"",
            "Standard deviation before redrawing.",
        ),
    ],
};

static LOGNORMAL: Table = Table {
    path: "work.lognormal",
    help: "Most values are short, some are very long.",
    inherits: false,
    keys: &[
        required("mean", Kind::Duration { min: 1, max: DAY, off: false }, "\"10ms\"", "Mean of the distribution."),
        required("sigma", Kind::Number { min: 0.0, max: 5.0 }, "1.5", "Standard deviation of the logarithm."),
    ],
};

static PARETO: Table = Table {
    path: "work.pareto",
    help: "Most values are short, few are very long.",
    inherits: false,
    keys: &[
        required(
            "alpha",
            Kind::Number { min: 0.01, max: 100.0 },
            "1.5",
            "Exponent. The smaller it is, the heavier the tail.",
        ),
        required("min", Kind::Duration { min: 1, max: DAY, off: false }, "\"1ms\"", "Minimum."),
        required("max", Kind::Duration { min: 2, max: DAY, off: false }, "\"1s\"", "Maximum."),
    ],
};
