//! Text tools that know nothing of logs: [`clean`], [`client_text`], [`corrections`], [`dates`], [`markdown`], [`markup`], [`secrets`],
//! [`sentences`], [`shorten`], [`title`]s, [`traditional`] Chinese, [`visible`] text, [`when`], [`words`].

#![cfg_attr(
    not(test),
    warn(
        // Pure: clippy.toml lists what may not be called here, and why.
        clippy::disallowed_methods,
        // Bad input is data, so nothing may panic over it.
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::print_stdout,
        clippy::print_stderr,
    )
)]
#![deny(unsafe_code)]

pub mod clean;
pub mod client_text;
pub mod corrections;
pub mod dates;
pub mod markdown;
pub mod markup;
pub mod secrets;
pub mod sentences;
pub mod shorten;
pub mod title;
pub mod traditional;
pub mod visible;
pub mod when;
pub mod words;
