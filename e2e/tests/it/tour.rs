//! The tour: `examples/tour/tour.txt` is played as it is written, and says what was really seen.
//!
//! `UPDATE_EXPECT=1` writes that into the file.

use expect_test::expect_file;

use crate::session::Session;

#[test]
fn the_tour_is_as_it_is_told() {
    let played =
        Session::new("examples/tour").play(include_str!("../../../examples/tour/tour.txt"));
    expect_file!["../../../examples/tour/tour.txt"].assert_eq(&played);
}
