//! A panic inside a world is a verdict, not an accident: it is caught, told in one line with the place where it happened, and
//! does not spill onto the terminal. Any other panic is as loud as ever.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
    /// Where the last expected panic of this thread happened.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// For the whole process, once. Without it everything is caught just the same, but noisily and without its place.
pub fn install_hook() {
    let loud = take_hook();
    set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        if EXPECTED.get() {
            PLACE.set(info.location().map(ToString::to_string));
        } else {
            loud(info);
        }
    }));
}

/// What the work came to, or the place and the text of its panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let _expected = expect();
    PLACE.set(None);
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = text(panic.as_ref());
        match PLACE.take() {
            Some(place) => format!("{place}: {text}"),
            None => text,
        }
    })
}

/// Panics of this thread are expected, and caught by somebody, until the guard is dropped.
pub fn expect() -> Expected {
    Expected { before: EXPECTED.replace(true) }
}

#[derive(Debug)]
pub struct Expected {
    before: bool,
}

impl Drop for Expected {
    fn drop(&mut self) {
        EXPECTED.set(self.before);
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_and_its_place_too() {
        install_hook();
        let told = caught(|| panic!("number {}", 7)).expect_err("it panics");
        assert!(told.ends_with(": number 7") && told.contains("panics.rs:"), "{told}");
        assert_eq!(caught(|| 5), Ok(5));
        assert!(!EXPECTED.get());
    }
}
