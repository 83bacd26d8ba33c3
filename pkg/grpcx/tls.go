// Package grpcx gives every service the same gRPC server and client: mutual
// TLS, callers allowed method by method, request ids, deadlines, limits, health
// and a shutdown that drains. It holds no service's logic.
package grpcx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// IdentityPrefix and IdentitySuffix frame a peer's name in its certificate: the
// URI spiffe://muniment/<name> or the DNS name <name>.muniment.internal.
const (
	IdentityPrefix = "spiffe://muniment/"
	IdentitySuffix = ".muniment.internal"
)

// TLSFiles are paths of PEM files: a certificate, its key and the CA that signs
// both sides' certificates.
type TLSFiles struct {
	Cert, Key, CA string
}

// load reads the files; both sides call it on every handshake, so that renewed
// certificates and CAs need no restart.
func (f TLSFiles) load() (*tls.Certificate, *x509.CertPool, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("loading the certificate %s with key %s: %w", f.Cert, f.Key, err)
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("the CA file %s holds no certificate", f.CA)
	}
	return &cert, pool, nil
}

// Server returns TLS settings that demand a client certificate of our CA. It
// fails at once when the files cannot be used.
func (f TLSFiles) Server() (*tls.Config, error) {
	if _, _, err := f.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cert, pool, err := f.load()
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				NextProtos:   []string{"h2"},
				Certificates: []tls.Certificate{*cert},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    pool,
			}, nil
		},
	}, nil
}

// Client returns TLS settings for calls to the named service: the server must
// carry that service's identity, whatever the address it was reached by.
func (f TLSFiles) Client(service string) (*tls.Config, error) {
	if _, _, err := f.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: service + IdentitySuffix,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, _, err := f.load()
			return cert, err
		},
		// The standard verification takes its roots from this struct, which is
		// made once; ours reads the CA file anew. It checks the same things.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection below verifies chain and identity
		VerifyConnection: func(state tls.ConnectionState) error {
			_, pool, err := f.load()
			if err != nil {
				return err
			}
			return verifyPeer(state, pool, service)
		},
	}, nil
}

func verifyPeer(state tls.ConnectionState, roots *x509.CertPool, service string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server sent no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	leaf := state.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates}); err != nil {
		return fmt.Errorf("verifying the server's certificate: %w", err)
	}
	if slices.Contains(names(leaf), service) {
		return nil
	}
	return fmt.Errorf("the server's certificate is not %s's", service)
}

// names lists the identities that a certificate carries.
func names(cert *x509.Certificate) []string {
	var found []string
	for _, uri := range cert.URIs {
		if name, ok := strings.CutPrefix(uri.String(), IdentityPrefix); ok && name != "" {
			found = append(found, name)
		}
	}
	for _, dns := range cert.DNSNames {
		if name, ok := strings.CutSuffix(dns, IdentitySuffix); ok && name != "" {
			found = append(found, name)
		}
	}
	return found
}

// Peers returns the identities in the certificate of the call's peer; none when
// the call did not come over mutual TLS.
func Peers(ctx context.Context) []string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return names(info.State.PeerCertificates[0])
}
