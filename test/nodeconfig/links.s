// Functions without a body, which upstream_test.go links to the kubelet, need a file like this.
