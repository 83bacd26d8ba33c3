package archive

import "time"

// Kind says what the bytes of an item are, as the source knows them. What is
// stored in the end (json, text or base64) is decided by the writer: a JSON
// item that RFC 8785 would change in meaning is kept as text.
type Kind int

// The kinds of bodies that sources split their answers into.
const (
	JSON   Kind = iota + 1 // one JSON value, any spelling
	Text                   // UTF-8 text, kept byte for byte
	Binary                 // bytes, kept as base64
)

// Item is one product as a source split it, before canonicalisation.
type Item struct {
	// ProductID is what the publisher calls it; never empty, no NUL.
	ProductID string
	// ItemKey tells apart the items of one body that share a product id; empty
	// where the product id is unique.
	ItemKey string
	// IssuedAt is what the product itself says, or nil: never guessed.
	IssuedAt *time.Time
	Kind     Kind
	// Body is the item as received. The writer does not change it.
	Body []byte
}

// Read is one complete read of one request of a source: everything that the
// body held, before any filter. A read with no items is a quiet read.
type Read struct {
	Source  string
	Request string
	// FetchedAt is when the read began.
	FetchedAt  time.Time
	HTTPStatus int
	// NotModified says that the server answered 304: there are no items, and
	// what the last read held still stands.
	NotModified bool
	Headers     Headers
	// RemovedFields are the members to take out of every JSON item before it is
	// stored, as dotted paths from the item's root: "lastRefresh",
	// "properties.edit_user". Steps go through arrays by themselves. A path that
	// begins with "**." is looked for at every depth: "**.flagMemberName". What
	// was found and removed is named in the body under _archive_removed_fields.
	RemovedFields []string
	Items         []Item
	// Bytes is the size of the answer's bodies after decompression, for metrics.
	Bytes int64
	// Validator is what the answer gave for the next conditional request, or nil.
	Validator *Validator
}

// Headers are the answer's headers that are kept with the poll, as received;
// empty where the answer had none. Of several pages, the first one's.
type Headers struct {
	Date         string
	Age          string
	LastModified string
}

// Outcome is what became of one request: a read or a failure, never both.
type Outcome struct {
	Read    *Read
	Failure *Failure
}

// Validator makes the next request of the same name a conditional one. It is
// stored only after the read that it came with was.
type Validator struct {
	// URLHash is the SHA-256 (hex) of the URL it belongs to: the URL itself may
	// hold a key, and a validator of another URL must not be sent.
	URLHash      string
	ETag         string
	LastModified string
}

// Failure is a read that held nothing we may keep.
type Failure struct {
	Source    string
	Request   string
	FetchedAt time.Time
	// HTTPStatus is 0 where no answer came.
	HTTPStatus int
	// Reason is one line for people, without keys or URLs that hold them.
	Reason string
	// RetryAfter is when the publisher asked us to come again, or zero.
	RetryAfter time.Time
}

// Held is one item that the last read of a request held, as stored: what
// dependent sources follow.
type Held struct {
	Request   string
	ProductID string
	ItemKey   string
	IssuedAt  *time.Time
	// Body is the stored text (canonical JSON for a JSON item).
	Body string
}
