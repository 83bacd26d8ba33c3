// Package archive is the one way into the as-issued archive, for our own
// pollers and for everybody who pushes what he read.
//
// The writer's rules: it is called after parsing, with everything that the body
// held, before any filter. It never fails or changes its caller: what goes wrong
// is logged under AS_ISSUED_ARCHIVE and counted. It has finished, and what it
// reported is committed, before the caller goes on. It stores only sources whose
// entry in the rights register allows it. A read is stored whole or not at all.
// In a test process it stores nothing unless the test opts in.
package archive
