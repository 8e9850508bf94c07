// audit
