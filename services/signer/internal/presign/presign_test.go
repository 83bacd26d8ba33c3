package presign_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/muniment/muniment/pkg/testkit"
	"github.com/muniment/muniment/services/signer/internal/presign"
)

// fixed gives the same credentials for ever.
type fixed presign.Credentials

func (f fixed) Current() presign.Credentials { return presign.Credentials(f) }

func settings() presign.Settings {
	return presign.Settings{
		PublicEndpoint: "https://s3.example.org", Endpoint: "http://s3.internal:9000", Region: "us-east-1",
		Buckets: []string{"arc"}, AccessKeyFile: "a", SecretKeyFile: "b", Lifetime: 300 * time.Second,
	}
}

// real returns a presigner for a bucket of the running store, as seen at public.
func realStore(t *testing.T, bucket testkit.S3, public string) *presign.Presigner {
	t.Helper()
	s := settings()
	s.PublicEndpoint, s.Region, s.Buckets = public, bucket.Region, []string{bucket.Bucket}
	return presign.New(s, fixed{AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey}, time.Now)
}

func put(t *testing.T, bucket testkit.S3, key string, body []byte) presign.Object {
	t.Helper()
	info, err := bucket.Client(t).PutObject(t.Context(), bucket.Bucket, key, bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return presign.Object{Bucket: bucket.Bucket, Key: key, VersionID: info.VersionID}
}

func sign(t *testing.T, p *presign.Presigner, o presign.Object) presign.URL {
	t.Helper()
	u, err := p.Sign(o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// bareGet sends what HTTP demands and nothing else.
func bareGet(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", u.RequestURI(), u.Host)
	reply, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

func TestT12OnlyTheHostIsSigned(t *testing.T) {
	t.Parallel()
	bucket := testkit.Bucket(t)
	u := sign(t, realStore(t, bucket, bucket.Endpoint), put(t, bucket, "a.wacz", []byte("the body")))
	parsed, err := url.Parse(u.Text)
	if err != nil {
		t.Fatal(err)
	}
	if got := parsed.Query().Get("X-Amz-SignedHeaders"); got != "host" {
		t.Errorf("X-Amz-SignedHeaders is %q", got)
	}
	if reply := bareGet(t, u.Text); !strings.HasPrefix(reply, "HTTP/1.1 200") || !strings.HasSuffix(reply, "the body") {
		t.Errorf("a plain GET is answered with %q", reply)
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodHead} {
		request, err := http.NewRequest(method, u.Text, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if reply.StatusCode != http.StatusForbidden {
			t.Errorf("%s with the URL is answered with %s", method, reply.Status)
		}
	}
}

func TestT13LinksAreForThePublicHost(t *testing.T) {
	t.Parallel()
	p := presign.New(settings(), fixed{AccessKey: "AK", SecretKey: "SK"}, time.Now)
	if u := sign(t, p, presign.Object{Bucket: "arc", Key: "k"}); !strings.HasPrefix(u.Text, "https://s3.example.org/arc/k?") {
		t.Errorf("the link is %s", u.Text)
	}

	// A cloud's own host name is no exception.
	s := settings()
	s.PublicEndpoint = "https://s3.eu-central-1.amazonaws.com"
	u := sign(t, presign.New(s, fixed{AccessKey: "AK", SecretKey: "SK"}, time.Now), presign.Object{Bucket: "arc", Key: "k"})
	if !strings.HasPrefix(u.Text, s.PublicEndpoint+"/arc/k?") {
		t.Errorf("the link is %s", u.Text)
	}

	// Through a proxy that keeps Host, as a public front door does.
	bucket := testkit.Bucket(t)
	store, err := url.Parse(bucket.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(store)
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(proxy.Close)
	public := strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1)
	u = sign(t, realStore(t, bucket, public), put(t, bucket, "a.wacz", []byte("through the door")))
	if reply := bareGet(t, u.Text); !strings.HasPrefix(reply, "HTTP/1.1 200") || !strings.Contains(reply, "through the door") {
		t.Errorf("through the proxy: %q", reply)
	}
}

func TestT14SigningOpensNoConnection(t *testing.T) {
	t.Parallel()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	knocked := make(chan struct{})
	go func() {
		if conn, err := door.Accept(); err == nil {
			_ = conn.Close()
			close(knocked)
		}
	}()
	s := settings()
	s.PublicEndpoint, s.Endpoint = "http://"+door.Addr().String(), "http://"+door.Addr().String()
	sign(t, presign.New(s, fixed{AccessKey: "AK", SecretKey: "SK"}, time.Now), presign.Object{Bucket: "arc", Key: "k"})
	select {
	case <-knocked:
		t.Error("signing asked the store")
	default:
	}
}

func TestT15NoLinkOutlivesItsCredentials(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for left, want := range map[time.Duration]time.Duration{
		time.Hour:         300 * time.Second,
		100 * time.Second: 99 * time.Second,
		60 * time.Second:  59 * time.Second,
		20 * time.Second:  0,
		-time.Second:      0,
	} {
		p := presign.New(settings(), fixed{AccessKey: "AK", SecretKey: "SK", SessionToken: "T+/=", Expires: now.Add(left)}, func() time.Time { return now })
		u, err := p.Sign(presign.Object{Bucket: "arc", Key: "k"})
		if want == 0 {
			if !errors.Is(err, presign.ErrNoCredentials) {
				t.Errorf("%s left: %v, want ErrNoCredentials", left, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := u.ExpiresAt.Sub(u.IssuedAt); got != want {
			t.Errorf("%s left: the link lives %s, want %s", left, got, want)
		}
		if !strings.Contains(u.Text, "X-Amz-Security-Token=T%2B%2F%3D") {
			t.Errorf("the session token is not in %s", u.Text)
		}
	}
}

func TestT16LifetimeBounds(t *testing.T) {
	t.Parallel()
	for lifetime, ok := range map[time.Duration]bool{
		59 * time.Second: false, 60 * time.Second: true, 300 * time.Second: true,
		7 * 24 * time.Hour: true, 7*24*time.Hour + time.Second: false, 60*time.Second + time.Millisecond: false,
	} {
		s := settings()
		s.Lifetime = lifetime
		if err := s.Validate("X_"); (err == nil) != ok {
			t.Errorf("URL_LIFETIME %s: %v", lifetime, err)
		}
	}
}

func TestT17KeysAsTheyAre(t *testing.T) {
	t.Parallel()
	p := presign.New(settings(), fixed{AccessKey: "AK", SecretKey: "SK"}, time.Now)
	if u := sign(t, p, presign.Object{Bucket: "arc", Key: "a b+c.wacz"}); !strings.HasPrefix(u.Text, "https://s3.example.org/arc/a%20b%2Bc.wacz?") {
		t.Errorf("the link is %s", u.Text)
	}
	bucket := testkit.Bucket(t)
	p = realStore(t, bucket, bucket.Endpoint)
	for i, key := range []string{"a b+c.wacz", "50%.wacz", "100%25.wacz", "münchen/日本.wacz", "urn:oid:1.wacz", "q?a=b&c#d.wacz", "~tilde'()!*.wacz", "a=b,c;d@e$f.wacz"} {
		body := fmt.Appendf(nil, "%d\x00%s", i, key)
		if got := bareGet(t, sign(t, p, put(t, bucket, key, body)).Text); !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.HasSuffix(got, string(body)) {
			t.Errorf("%q: %q", key, got)
		}
	}
}

func TestT18RangesWork(t *testing.T) {
	t.Parallel()
	bucket := testkit.Bucket(t)
	u := sign(t, realStore(t, bucket, bucket.Endpoint), put(t, bucket, "a.wacz", bytes.Repeat([]byte("0123456789"), 10)))
	request, err := http.NewRequest(http.MethodGet, u.Text, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Range", "bytes=-22")
	request.Header.Set("Origin", "https://replay.example.org")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	if reply.StatusCode != http.StatusPartialContent || string(body) != "8901234567890123456789" {
		t.Errorf("got %s with %q", reply.Status, body)
	}
}

func TestTheAdmittedVersionIsPinned(t *testing.T) {
	t.Parallel()
	bucket := testkit.Bucket(t)
	admitted := put(t, bucket, "a.wacz", []byte("admitted"))
	put(t, bucket, "a.wacz", []byte("overwritten"))
	if admitted.VersionID == "" {
		t.Fatal("the bucket keeps no versions")
	}
	if got := bareGet(t, sign(t, realStore(t, bucket, bucket.Endpoint), admitted).Text); !strings.HasSuffix(got, "admitted") {
		t.Errorf("the link gives %q", got)
	}
}

func TestAnotherBucketIsNotSigned(t *testing.T) {
	t.Parallel()
	p := presign.New(settings(), fixed{AccessKey: "AK", SecretKey: "SK"}, time.Now)
	if u, err := p.Sign(presign.Object{Bucket: "secrets", Key: "k"}); err == nil {
		t.Errorf("signed %s", u.Text)
	}
}

func TestPublicEndpointIsHostOnly(t *testing.T) {
	t.Parallel()
	for endpoint, ok := range map[string]bool{
		"https://s3.example.org": true, "https://s3.example.org/": true, "http://localhost:9000": true,
		"https://s3.example.org:443": false, "http://s3.example.org:80": false, "https://example.org/s3": false,
		"https://user@example.org": false, "https://example.org?x=y": false, "s3.example.org": false,
	} {
		s := settings()
		s.PublicEndpoint = endpoint
		if err := s.Validate("X_"); (err == nil) != ok {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
