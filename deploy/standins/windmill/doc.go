// Package windmill stands in for Windmill in the local stack and in tests: its
// webhook starts a job that executes a flow.yaml of the workspace folder
// (deploy/windmill) as Windmill would. Steps run in order; a script module is
// built with the wrapper that Windmill's Go worker puts around it and runs as a
// process of its own; for-loops run in parallel; a step is retried; the failure
// module runs when a step has failed for good.
//
// It knows only what our flow uses, and refuses the rest when it loads the
// folder, with a sentence that says where: a key of a module that it does not
// know, an input that is more than flow_input.x, results.a.b,
// flow_input.iter.value.c or a static value, a parameter that gets no input, an
// input without a parameter. So a broken flow fails here before it fails there.
//
// It is for the local stack only: no workspace, no users, no queue that outlives
// the process, and scripts run unconfined.
package windmill
