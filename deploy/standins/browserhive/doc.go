// Package browserhive stands in for BrowserHive in the local stack and in
// tests. It speaks BrowserHive's HTTP contract: one capture at a time, 429 when
// busy, POST /captures that answers when the capture is over and its manifest
// written. Instead of driving a browser it fetches the page and the images,
// styles and scripts that the HTML names, and it writes a true WACZ of them.
//
// It is for the local stack only. It runs no script, takes no screenshot, signs
// nothing, asks nobody for a password and renders no page: never point anything
// but a demo at it.
//
// # The manifest that comes late
//
// The reconciler exists because a level may be reported before a capture's
// manifest can be read. Settings.LateManifest makes that happen on purpose: for
// a page whose URL holds that text the stand-in answers with the manifest's
// location as usual, but writes the manifest only when POST
// /standin/manifests/release is called, or Settings.LateManifestDelay later,
// whichever comes first.
package browserhive
