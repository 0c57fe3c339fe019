//! What is under way, found again by the number that it was given: a place in a list, and how often that place was used before. So a
//! number is as good as new each time, and one that comes twice finds nothing.

#[derive(Clone, Debug)]
pub struct Places<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    pub fn put(&mut self, what: T) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.1 = Some(what);
        u64::from(place.0) << 32 | u64::from(at)
    }

    pub fn get(&self, number: u64) -> Option<&T> {
        let (used, at) = ((number >> 32) as u32, number as u32);
        self.places.get(at as usize).filter(|place| place.0 == used)?.1.as_ref()
    }

    pub fn take(&mut self, number: u64) -> Option<T> {
        let (used, at) = ((number >> 32) as u32, number as u32);
        let place = self.places.get_mut(at as usize).filter(|place| place.0 == used)?;
        let what = place.1.take()?;
        place.0 = place.0.wrapping_add(1);
        self.free.push(at);
        Some(what)
    }

    /// All of which that is true.
    pub fn take_if(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for (at, place) in self.places.iter_mut().enumerate() {
            if let Some(what) = place.1.take_if(|what| is_wanted(what)) {
                place.0 = place.0.wrapping_add(1);
                self.free.push(at as u32);
                taken.push(what);
            }
        }
        taken
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_good_once() {
        let mut places = Places::default();
        let (first, second) = (places.put('a'), places.put('b'));
        assert!(first != second && places.len() == 2);
        assert_eq!((places.get(first), places.get(second)), (Some(&'a'), Some(&'b')));
        assert_eq!((places.take(first), places.take(first)), (Some('a'), None));
        let third = places.put('c');
        assert!(third != first, "the same place, another number");
        assert_eq!((places.take(first), places.take(third), places.take(second)), (None, Some('c'), Some('b')));
        assert_eq!((places.get(first), places.get(third)), (None, None));
        assert!(places.is_empty());
    }

    #[test]
    fn what_is_given_up_is_not_found_later() {
        let mut places = Places::default();
        let numbers: Vec<u64> = (0..6).map(|number| places.put(number)).collect();
        assert_eq!(places.take_if(|number| number % 2 == 0), [0, 2, 4]);
        let left: Vec<Option<i32>> = numbers.into_iter().map(|number| places.take(number)).collect();
        assert_eq!(left, [None, Some(1), None, Some(3), None, Some(5)]);
    }
}
