//! Recipes: what is read is printed, and read back as the same.
#![no_main]

use kiste::format::recipe::Recipe;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Recipe::parse(text) {
        Ok(recipe) => {
            let printed = recipe.print().unwrap();
            let again = Recipe::parse(&printed).unwrap();
            // Compared as text, as NaN is not itself.
            assert_eq!(format!("{again:?}"), format!("{recipe:?}"));
            assert_eq!(again.print().unwrap(), printed);
        }
        Err(error) => assert!(error.line > 0 && error.column > 0 && !error.to_string().is_empty()),
    }
});
