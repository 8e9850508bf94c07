// tune
